import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { createConnectionLimit, type Entry } from './connection-limit.ts'

describe('connections', () => {
  /** Four in total, three per client; the first letter of a connection's name is its client. */
  function setUp(limits = { total: 4, perClient: 3 }) {
    const limit = createConnectionLimit(limits)
    const closed: string[] = []
    const working = new Set<string>()
    const open = new Map<string, Entry>()
    return {
      closed,
      at: (name: string) => open.get(name),
      add(name: string) {
        const entry = limit.add(name.charAt(0), {
          close: () => closed.push(name),
          isBusy: () => working.has(name),
        })
        if (entry) open.set(name, entry)
        return entry
      },
      begin: (name: string) => working.add(name),
      end(name: string) {
        working.delete(name)
        open.get(name)?.touch()
      },
    }
  }

  test('are counted per client, up to its limit', () => {
    const { add, closed } = setUp()
    for (const name of ['a1', 'a2', 'a3']) assert.ok(add(name))
    assert.equal(add('a4'), null)
    assert.deepEqual(closed, [])
  })

  test('of the client with the most are closed first, the least recently used before others', () => {
    const { add, closed, at } = setUp()
    for (const name of ['b1', 'a1', 'a2', 'a3']) add(name)
    at('a1')?.touch()
    assert.ok(add('c1'))
    assert.deepEqual(closed, ['a2'])
    at('a3')?.touch()
    assert.ok(add('d1'))
    assert.deepEqual(closed, ['a2', 'a1'])
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

  test('are refused while all others are busy', () => {
    const { add, closed, begin, end } = setUp()
    for (const name of ['a1', 'a2', 'b1', 'c1']) {
      add(name)
      begin(name)
    }
    assert.equal(add('d1'), null)
    assert.equal(add('d1'), null)
    end('b1')
    begin('b1')
    assert.equal(add('d1'), null, 'it is busy with the next request')
    end('b1')
    assert.ok(add('d1'))
    assert.deepEqual(closed, ['b1'])
  })

  test('that are to be closed first are closed before those of larger clients, unless used again', () => {
    const { add, closed, at } = setUp()
    for (const name of ['a1', 'a2', 'b1', 'c1']) add(name)
    for (const name of ['b1', 'c1']) at(name)?.closeFirst()
    at('b1')?.touch()
    assert.ok(add('d1') && add('e1'))
    assert.deepEqual(closed, ['c1', 'a1'])
  })

  test('are removed only once', () => {
    const { add, begin, end } = setUp({ total: 2, perClient: 2 })
    const gone = add('a1')
    begin('a1')
    gone?.remove()
    gone?.remove()
    end('a1')
    gone?.touch()
    for (const name of ['a2', 'a3']) {
      assert.ok(add(name))
      begin(name)
    }
    assert.equal(add('a4'), null)
    assert.equal(add('b1'), null)
  })

  test('cost the same below the limit and at it, with many clients', () => {
    const total = 4_096
    const limit = createConnectionLimit({ total, perClient: 256 })
    const IDLE = { close: () => {}, isBusy: () => false }
    const cpuMsOf = (clients: number, from: number) => {
      const start = process.cpuUsage()
      for (let i = 0; i < clients; i++) limit.add(`client ${from + i}`, IDLE)
      const { user, system } = process.cpuUsage(start)
      return (user + system) / 1_000
    }
    const fillingMs = cpuMsOf(total, 0)
    // The least of several floods: other threads of this process may compute during one of them.
    const floods = [1, 11, 21].map(from => cpuMsOf(10 * total, from * total) / 10)
    const floodMs = Math.min(...floods)
    assert.ok(floodMs < 10 * fillingMs + 20, `${floodMs} ms at the limit, ${fillingMs} ms below it`)
  })
})
