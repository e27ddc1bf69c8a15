import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { createConnectionLimit } from './connection-limit.ts'

describe('connections', () => {
  /** The first letter of a connection's name is its client. */
  function setUp(total: number, perClient: number) {
    const closed: string[] = []
    const working = new Set<string>()
    const limit = createConnectionLimit<string>(
      { total, perClient },
      name => working.has(name),
      name => closed.push(name),
    )
    return {
      ...limit,
      closed,
      working,
      add: (...names: string[]) => names.every(name => limit.add(name, name.charAt(0))),
    }
  }

  test('of the next client are closed if all of the first are busy', () => {
    const { add, closed, working, touch } = setUp(6, 3)
    add('a1', 'a2', 'a3', 'b1', 'b2', 'c1')
    for (const name of ['a1', 'a2', 'a3']) working.add(name)
    assert.ok(add('d1'))
    assert.deepEqual(closed, ['b1'])
    working.delete('a2')
    touch('a2')
    assert.ok(add('e1'))
    assert.deepEqual(closed, ['b1', 'a2'])
  })

  test('that are to be closed first are closed before those of larger clients, unless used again', () => {
    const { add, closed, touch, closeFirst } = setUp(4, 3)
    add('a1', 'a2', 'b1', 'c1')
    for (const name of ['b1', 'c1']) closeFirst(name)
    touch('b1')
    assert.ok(add('d1', 'e1'))
    assert.deepEqual(closed, ['c1', 'a1'])
  })

  test('are removed only once', () => {
    const { add, remove, touch, working } = setUp(2, 2)
    add('a1')
    remove('a1')
    remove('a1')
    touch('a1')
    for (const name of ['a2', 'a3']) {
      assert.ok(add(name))
      working.add(name)
    }
    assert.ok(!add('a4') && !add('b1'))
  })
})
