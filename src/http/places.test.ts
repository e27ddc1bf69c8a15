import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { createPlaces, type Place } from './places.ts'

describe('places for connections', () => {
  /** Four in all, three for a client; a connection's name starts with its client's. */
  function setUp(limits = { total: 4, perClient: 3 }) {
    const places = createPlaces(limits)
    const closed: string[] = []
    const open = new Map<string, Place>()
    const take = (name: string) => {
      const place = places.take(name.charAt(0), () => {
        closed.push(name)
        open.delete(name)
      })
      if (place) open.set(name, place)
      return place
    }
    return { take, closed, open, at: (name: string) => open.get(name) }
  }

  test('are there for each client up to its limit, and again once they are left', () => {
    const { take, closed } = setUp()
    for (const name of ['a1', 'a2', 'a3']) assert.ok(take(name))
    assert.equal(take('a4'), null)
    assert.deepEqual(closed, [])
  })

  test('are given back by the client that holds the most, the least recently used one first', () => {
    const { take, closed, at } = setUp()
    for (const name of ['b1', 'a1', 'a2', 'a3']) take(name)
    at('a1')?.touch()
    assert.ok(take('c1'))
    assert.deepEqual(closed, ['a2'])
    at('a3')?.begin()
    at('a3')?.end()
    assert.ok(take('d1'))
    assert.deepEqual(closed, ['a2', 'a1'])
  })

  test('are given back by the next client where all connections of the first are at work', () => {
    const { take, closed, at } = setUp({ total: 6, perClient: 3 })
    for (const name of ['a1', 'a2', 'a3', 'b1', 'b2', 'c1']) take(name)
    for (const name of ['a1', 'a2', 'a3']) at(name)?.begin()
    assert.ok(take('d1'))
    assert.deepEqual(closed, ['b1'])
    at('a2')?.end()
    assert.ok(take('e1'))
    assert.deepEqual(closed, ['b1', 'a2'])
  })

  test('are refused where every connection is at work', () => {
    const { take, closed, at, open } = setUp()
    for (const name of ['a1', 'a2', 'b1', 'c1']) take(name)
    for (const place of open.values()) place.begin()
    assert.equal(take('d1'), null)
    at('b1')?.begin()
    at('b1')?.end()
    assert.equal(take('d1'), null, 'one of two requests on it is still at work')
    at('b1')?.end()
    assert.ok(take('d1'))
    assert.deepEqual(closed, ['b1'])
  })

  test('are counted once, however often a connection says that it leaves or works', () => {
    const { take, at } = setUp({ total: 2, perClient: 2 })
    const gone = take('a1')
    gone?.leave()
    gone?.leave()
    gone?.begin()
    gone?.end()
    gone?.touch()
    assert.ok(take('a2'))
    assert.ok(take('a3'))
    assert.equal(take('a4'), null)
    at('a2')?.begin()
    at('a3')?.begin()
    assert.equal(take('b1'), null)
  })

  test('cost the same in a flood of clients, whether they are full or not', () => {
    const total = 4_096
    const places = createPlaces({ total, perClient: 256 })
    const cpuMsOf = (clients: number, from: number) => {
      const start = process.cpuUsage()
      for (let i = 0; i < clients; i++) places.take(`client ${from + i}`, () => {})
      const { user, system } = process.cpuUsage(start)
      return (user + system) / 1_000
    }
    const fillingMs = cpuMsOf(total, 0)
    const floodMs = cpuMsOf(10 * total, total) / 10
    assert.ok(floodMs < 10 * fillingMs + 20, `${floodMs} ms full, ${fillingMs} ms empty`)
  })
})
