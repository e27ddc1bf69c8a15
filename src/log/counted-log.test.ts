import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { clientGroup } from '../system/client-group.ts'
import { createCountedLog } from './counted-log.ts'
import { createLog } from './log.ts'

type Line = { time: string; event: string; ip?: string; count?: number }

function setUp() {
  const lines: Line[] = []
  const log = createLog('info', { write: (text: string) => lines.push(JSON.parse(text)) })
  const refusals = createCountedLog(log)
  const refuse = (ip: string, email: string, event = 'login.throttled', scope = 'pair') => {
    const caller = { requestId: 'r', ip, userAgent: 'u' }
    refusals.write('warn', clientGroup(ip), caller, { event, email, scope })
  }
  /** Refusals with a line of their own, and those in counts. */
  const total = () => lines.reduce((sum, { count = 1 }) => sum + count, 0)
  return { lines, refuse, total, flush: refusals.flush }
}

describe('counted lines', () => {
  test('of one client and email are one line at once, then a count', context => {
    context.mock.timers.enable({ apis: ['setTimeout'] })
    const { lines, refuse } = setUp()
    for (let i = 0; i < 1_000; i++) refuse('192.0.2.1', 'kate@example.com')
    assert.equal(lines.length, 1)
    context.mock.timers.tick(1_000)
    const shared = { level: 'warn', event: 'login.throttled', ip: '192.0.2.1', scope: 'pair' }
    const told = lines.map(({ time: _, ...line }) => line)
    assert.deepEqual(told, [
      { ...shared, email: 'kate@example.com', requestId: 'r', userAgent: 'u' },
      { ...shared, count: 999 },
    ])
    // The email has been written before, so the next line is a count again.
    for (let i = 0; i < 500; i++) refuse('192.0.2.1', 'kate@example.com')
    context.mock.timers.tick(1_000)
    assert.equal(lines.length, 3)
    assert.equal(lines[2]?.count, 500)
  })

  test('of another event, client or reason are counted separately', () => {
    const { lines, refuse, flush } = setUp()
    for (let i = 0; i < 3; i++) {
      refuse('192.0.2.1', 'kate@example.com')
      refuse('192.0.2.2', 'kate@example.com')
      refuse('192.0.2.1', 'kate@example.com', 'login.shed')
      refuse('192.0.2.1', 'kate@example.com', 'login.throttled', 'client')
    }
    assert.equal(lines.length, 4)
    flush()
    const counts = lines.map(({ count }) => count)
    assert.deepEqual(counts, [...Array(4), 2, 2, 2, 2])
  })

  test('of all addresses of one IPv6 network show ten emails per second, and count the others', context => {
    context.mock.timers.enable({ apis: ['setTimeout'] })
    const { lines, refuse, total } = setUp()
    const refuseEach = (first: number, last: number) => {
      for (let i = first; i < last; i++)
        refuse(`2001:db8::${i.toString(16)}`, `user${i}@example.com`)
    }
    refuseEach(0, 20_000)
    assert.equal(lines.length, 10)
    context.mock.timers.tick(1_000)
    assert.deepEqual([lines.length, total()], [11, 20_000])
    assert.equal(lines.at(-1)?.ip, '2001:db8::0')
    refuseEach(20_000, 20_030)
    assert.equal(lines.length, 21, 'ten more in the next second')
  })

  test('of 20,000 clients need few lines, and every line is counted', () => {
    const { lines, refuse, total, flush } = setUp()
    for (let i = 0; i < 20_000; i++) {
      refuse(`198.51.${i >> 8}.${i % 256}`, `user${i}@example.com`, ['a.a', 'b.b'][i % 2])
    }
    assert.equal(lines.length, 1_000)
    flush()
    const told = lines.slice(1_000).map(({ event, ip, count }) => [event, ip, count])
    assert.deepEqual(told, [
      ['a.a', undefined, 9_500],
      ['b.b', undefined, 9_500],
    ])
    assert.equal(total(), 20_000)
    // A second without lines removes the streams, so that there is room for others.
    flush()
    refuse('203.0.113.1', 'kate@example.com')
    assert.equal(lines.at(-1)?.ip, '203.0.113.1')
  })
})
