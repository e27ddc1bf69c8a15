import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { createConnectionLimit } from './connection-limit.ts'

describe('connections', () => {
  /** The first letter of a connection's name is its client; `p` is a proxy. */
  function setUp(total: number, perClient: number) {
    const limited: string[] = []
    const busy = new Set<string>()
    const limit = createConnectionLimit<string>(
      { total, perClient },
      name => busy.has(name),
      (...parts) => limited.push(parts.join(' ')),
    )
    const clientOf = (name: string) => (name.startsWith('p') ? null : name.charAt(0))
    return {
      ...limit,
      limited,
      busy,
      use: (...names: string[]) => names.map(name => limit.use(name, clientOf(name))),
      useFor: limit.use,
    }
  }

  test('of the next client are closed if all of the first are busy', () => {
    const { use, limited, busy } = setUp(6, 3)
    use('a1', 'a2', 'a3', 'b1', 'b2', 'c1')
    for (const name of ['a1', 'a2', 'a3']) busy.add(name)
    use('d1')
    assert.deepEqual(limited.splice(0), ['b1 total closed'])
    busy.delete('a2')
    use('a2', 'e1')
    assert.deepEqual(limited, ['a2 total closed'])
  })

  test('of a client at its own limit are closed in the order of their use, and a new one is refused if all are busy', () => {
    const { use, limited, busy } = setUp(9, 2)
    use('b1', 'a1', 'a2', 'a1', 'a3')
    assert.deepEqual(limited.splice(0), ['a2 client closed'])
    for (const name of ['a1', 'a3']) busy.add(name)
    use('a4', 'b2', 'a1')
    assert.deepEqual(limited, ['a4 client refused'])
  })

  test('of a proxy have the limit of the client that they serve, are kept if all are busy, and without a client closed last', () => {
    const { use, useFor, limited, busy } = setUp(5, 2)
    use('p1', 'p2', 'p3', 'p4')
    for (const name of ['p1', 'p2', 'p3']) useFor(name, 'a')
    assert.deepEqual(limited.splice(0), ['p1 client closed'])
    for (const name of ['p2', 'p3']) busy.add(name)
    useFor('p4', 'a')
    use('c1', 'p5', 'p6')
    assert.deepEqual(limited.splice(0), ['p4 total closed'])
    use('p4', 'p2')
    assert.deepEqual(limited.splice(0), ['c1 total closed'])
    busy.add('p2')
    use('p7')
    assert.deepEqual(limited, ['p5 total closed'])
  })

  test('that are to be closed first are closed before those of larger clients, unless used again', () => {
    const { use, limited, closeFirst } = setUp(4, 3)
    use('a1', 'a2', 'b1', 'c1')
    for (const name of ['b1', 'c1']) closeFirst(name)
    use('b1', 'd1', 'e1')
    assert.deepEqual(limited, ['c1 total closed', 'a1 total closed'])
  })

  test('are removed only once', () => {
    const { use, remove, limited, busy } = setUp(2, 2)
    use('a1')
    remove('a1')
    remove('a1')
    for (const name of ['a2', 'a3']) {
      use(name)
      busy.add(name)
    }
    use('b1')
    assert.deepEqual(limited, ['b1 total refused'])
  })
})
