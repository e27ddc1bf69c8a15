import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Config } from '../config/config.ts'
import { createCountedLog } from './counted-log.ts'
import { createLog } from './log.ts'

function createTestLog(logIp: Config['logIp']) {
  const lines: Record<string, unknown>[] = []
  const log = createLog('info', { write: (text: string) => lines.push(JSON.parse(text)) }, logIp)
  return { log, lines }
}

const CASES = [
  ['203.0.113.77', '203.0.113.0'],
  ['::ffff:203.0.113.77', '203.0.113.0'],
  ['2001:db8:1:2:3:4:5:6', '2001:db8:1::'],
  ['::1', '::'],
  ['kate@example.com', 'kate@example.com'],
  ['', ''],
] as const

for (const [given, truncated] of CASES) {
  test(`"${given}" is logged in full, as "${truncated}", or not at all`, () => {
    const isAddress = given !== truncated
    for (const [logIp, expected] of [
      ['full', given],
      ['truncated', truncated],
      ['none', isAddress ? undefined : given],
    ] as const) {
      const { log, lines } = createTestLog(logIp)
      log.info({ event: 'x', ip: given, target: given })
      log.child({ ip: given }).info({ event: 'x' })
      const logged = [lines[0]?.ip, lines[0]?.target, lines[1]?.ip]
      assert.deepEqual(logged, [expected, expected, expected])
    }
  })
}

test('clients of one network are still counted apart', () => {
  const { log, lines } = createTestLog('truncated')
  const counted = createCountedLog(log)
  for (const ip of ['203.0.113.1', '203.0.113.1', '203.0.113.2']) {
    counted.write('warn', ip, { ip, requestId: '', userAgent: '' }, { event: 'x' })
  }
  counted.flush()
  assert.deepEqual(
    lines.map(({ ip, count }) => [ip, count]),
    [undefined, undefined, 1].map(count => ['203.0.113.0', count]),
  )
})
