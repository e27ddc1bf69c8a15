import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { createConnectionLimit } from './connection-limit.ts'

describe('connections', () => {
  /** Four in total, three per client; the first letter of a connection's name is its client. */
  function setUp(limits = { total: 4, perClient: 3 }) {
    const closed: string[] = []
    const working = new Set<string>()
    const limit = createConnectionLimit<string>(
      limits,
      name => working.has(name),
      name => closed.push(name),
    )
    return {
      ...limit,
      closed,
      add: (name: string) => limit.add(name, name.charAt(0)),
      begin: (name: string) => working.add(name),
      end(name: string) {
        working.delete(name)
        limit.touch(name)
      },
    }
  }

  test('are counted per client, up to its limit', () => {
    const { add, closed } = setUp()
    for (const name of ['a1', 'a2', 'a3']) assert.ok(add(name))
    assert.equal(add('a4'), false)
    assert.deepEqual(closed, [])
  })

  test('of the next client are closed if all of the first are busy', () => {
    const { add, closed, begin, end } = setUp({ total: 6, perClient: 3 })
    for (const name of ['a1', 'a2', 'a3', 'b1', 'b2', 'c1']) add(name)
    for (const name of ['a1', 'a2', 'a3']) begin(name)
    assert.ok(add('d1'))
    assert.deepEqual(closed, ['b1'])
    end('a2')
    assert.ok(add('e1'))
    assert.deepEqual(closed, ['b1', 'a2'])
  })

  test('that are to be closed first are closed before those of larger clients, unless used again', () => {
    const { add, closed, touch, closeFirst } = setUp()
    for (const name of ['a1', 'a2', 'b1', 'c1']) add(name)
    for (const name of ['b1', 'c1']) closeFirst(name)
    touch('b1')
    assert.ok(add('d1') && add('e1'))
    assert.deepEqual(closed, ['c1', 'a1'])
  })

  test('are removed only once', () => {
    const { add, remove, touch, begin } = setUp({ total: 2, perClient: 2 })
    add('a1')
    remove('a1')
    remove('a1')
    touch('a1')
    for (const name of ['a2', 'a3']) {
      assert.ok(add(name))
      begin(name)
    }
    assert.ok(!add('a4') && !add('b1'))
  })
})
