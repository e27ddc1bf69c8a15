import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { Config } from '../config/config.ts'
import { createAdminToken } from '../system/identifiers.ts'
import { createCountedLog } from './counted-log.ts'
import { createLog } from './log.ts'

const CANARY = 'c4n4ry'
const COLOUR = new RegExp(`${String.fromCharCode(0x1b)}\\[\\d+m`, 'g')

const UNSAFE = /[\p{Cc}\p{Zl}\p{Zp}\p{Bidi_Control}]/u
const HOSTILE = [
  ...['a\r\nb', '\u001b[2J', '\u0007', '\u0000', '\u007f', '\u0085', '\u009b2J', '\u2028'],
  ...['\u2029', '\u202ereversed', '\u2066x', '\u200fx', '"}\n{"event":"login.succeeded"}'],
  ...['\ud800', '\\n', '{event}', '{msg}', '%s%o%j', '\t'],
]

function capture(isTTY: boolean, level: Config['logLevel'] = 'trace', logIp?: Config['logIp']) {
  const written: string[] = []
  const output = { isTTY, write: (text: string) => written.push(text) }
  return { log: createLog(level, output, logIp), written }
}

function withGetter(get: () => unknown, others = {}, name = 'user'): object {
  return Object.defineProperty(others, name, { enumerable: true, get })
}

class Account {
  readonly password = CANARY
  readonly profile = { Authorization: CANARY }
}

const SECRETS = [
  ...['password', 'passwordHash', 'password_hash', 'accessToken', 'refreshToken', 'token'],
  ...['authorization', 'cookie', 'headers', 'body', 'query', 'url'],
  ...['otp', 'newOtp', 'secret', 'recoveryCode', 'recoveryCodes', 'passkey', 'newPasskey'],
]
const HIDING_PLACES: [what: string, value: object][] = [
  ...SECRETS.map((name): [string, object] => [`the field "${name}"`, { [name]: CANARY }]),
  ['a list of objects', [{ password: CANARY }]],
  ['a list in a list', [[{ token: CANARY }]]],
  ['a class instance', new Account()],
  ['a null-prototype object', Object.assign(Object.create(null), { cookie: CANARY })],
  ['an object that inherits', Object.assign(Object.create({ a: 1 }), { cookie: CANARY })],
  ['a map', new Map([['password', CANARY]])],
  ['a map of objects', new Map([['user', { password: CANARY }]])],
  ['a set', new Set([{ refreshToken: CANARY }])],
  ['bytes', Buffer.from(JSON.stringify({ text: CANARY }))],
  ['an error with more fields', Object.assign(new Error('x'), { request: { password: CANARY } })],
  ['the cause of an error', new Error('x', { cause: { password: CANARY } })],
  ['a getter', withGetter(() => CANARY, {}, 'password')],
  ['the value of a getter', withGetter(() => ({ password: CANARY }))],
  ['an object whose getter fails', withGetter(() => assert.fail('not now'), { password: CANARY })],
  ['the text of an object', { toJSON: () => CANARY, toString: () => CANARY }],
  ['names in other cases', { PASSWORD: CANARY, Cookie: CANARY, 'Set-Cookie': CANARY }],
  ['headers', { 'x-csrf-token': CANARY, 'set-cookie': [CANARY], 'proxy-authorization': CANARY }],
  ['a list of names and values', ['Host', 'localhost', 'Cookie', CANARY]],
  ['a list of pairs', [['authorization', CANARY]]],
  ['a value below the deepest level', { a: { b: { c: { d: { e: CANARY } } } } }],
]

for (const isTTY of [false, true]) {
  describe(`a log for ${isTTY ? 'a terminal' : 'programs'}`, () => {
    for (const [what, value] of HIDING_PLACES) {
      test(`never shows a secret in ${what}`, () => {
        const { log, written } = capture(isTTY)
        log.info({ event: 'x', value })
        log.info({ event: 'x', a: { b: value } })
        log.info({ event: 'x', list: [value, { value }] })
        log.child({ value, password: CANARY }).error({ event: 'y', err: value })
        log.error(value, 'with a text')
        assert.equal(written.length, 5)
        assert.ok(!written.join('').includes(CANARY), written.join(''))
      })
    }

    test('masks an admin token in any text', () => {
      const { log, written } = capture(isTTY)
      const token = createAdminToken()
      log.info({ event: 'x', userAgent: `curl ${token}`, [token]: 1, list: [token] }, `a ${token}`)
      log.error({ event: 'x', err: new Error(`${'x'.repeat(1_000)}${token}`) })
      assert.ok(!written.join('').includes(token.slice(6, 20)))
      assert.ok(written[0]?.includes('curl lsadm_***'))
    })

    test('shows the fields next to a secret', () => {
      const { log, written } = capture(isTTY)
      const account = Object.assign(new Account(), { name: 'Kate' })
      log.info({ event: 'x', account, map: new Map([['role', 'admin']]), set: new Set([5, 'six']) })
      const line = written.join('')
      for (const part of ['Kate', 'role', 'admin', '5', 'six']) assert.ok(line.includes(part), part)
    })

    test('writes a line of bounded length for any value', () => {
      const { log, written } = capture(isTTY)
      const circle: Record<string, unknown> = { name: 'circle' }
      circle.self = circle
      circle.all = Array.from({ length: 1_000 }, () => circle)
      const wide = Object.fromEntries(Array.from({ length: 5_000 }, (_, i) => [`field ${i}`, i]))
      for (const facts of [{ circle }, { wide }]) log.info({ event: 'x', ...facts })
      log.info({ event: 'x', deep: JSON.parse(`${'['.repeat(5_000)}${']'.repeat(5_000)}`) })
      log.info({ event: 'x', many: Array.from({ length: 100_000 }, () => 'x'.repeat(1_000)) })
      log.info({ event: 'x', ['long name'.repeat(1_000)]: 1, symbol: Symbol('x'), big: 5n })
      log.error({ event: 'x', err: new Error('\u0000'.repeat(100_000)) })
      log.error(new Error('x'.repeat(100_000)))
      log.info({ event: 'x' }, 'y'.repeat(100_000))
      assert.equal(written.length, 8)
      for (const line of written) assert.ok(line.length < 60_000, `${line.length} characters`)
      for (const line of written.slice(-3)) assert.ok(line.length < 8_000, `${line.length}`)
    })

    test('shows the type, code, message and stack of an error, and no details or other values', () => {
      const { log, written } = capture(isTTY)
      const fault = Object.assign(new TypeError(`relation${HOSTILE.join('')} does not exist`), {
        ...{ code: '42P01', detail: CANARY, parameters: [CANARY], query: CANARY },
        ...{ rawPacket: Buffer.from(CANARY), cause: new Error(CANARY) },
      })
      log.error({ event: 'request.failed', err: fault })
      log.error(fault)
      const text = written.join('')
      for (const part of ['TypeError', '42P01', 'relation', 'does not exist', 'log.test.ts']) {
        assert.ok(text.includes(part), part)
      }
      assert.ok(!text.includes(CANARY))
      // Further lines of an entry are indented, so that they cannot look like another event.
      for (const entry of written) {
        const lines = entry.replace(COLOUR, '').trimEnd().split('\n')
        for (const line of lines) assert.doesNotMatch(line, UNSAFE)
        for (const below of lines.slice(1)) assert.match(below, /^ {4}/)
      }
    })

    for (const hostile of HOSTILE) {
      test(`keeps ${JSON.stringify(hostile).replace(/\P{ASCII}/gu, '?')} within its line`, () => {
        const { log, written } = capture(isTTY)
        log.child({ userAgent: hostile }).warn({ event: 'login.failed', email: hostile })
        assert.equal(written.length, 1)
        const [line = ''] = written
        assert.match(line, /^[^\n]+\n$/)
        // Colours come from the log itself; no other control or direction character may remain.
        const plain = line.slice(0, -1).replace(COLOUR, '')
        assert.doesNotMatch(plain, UNSAFE)
        assert.equal(plain.match(/login\./g)?.length, hostile.includes('login.') ? 3 : 1)
        if (!isTTY) assert.equal(JSON.parse(line).email, hostile)
      })
    }
  })
}

test('a log for programs has the time in UTC and the name of the level', () => {
  const { log, written } = capture(false)
  log.error({ event: 'x' })
  const { time, ...line } = JSON.parse(String(written[0]))
  assert.deepEqual(line, { level: 'error', event: 'x' })
  assert.match(time, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
})

test('a log for a terminal has the time of day, the level, the event, the text and the other fields', () => {
  const { log, written } = capture(true)
  const hidden = { requestId: 'r', address: 'https://localhost', page: 'https://localhost/login' }
  log.info({ event: 'service.started', database: 'sqlite', ...hidden }, 'listening')
  log.warn({ event: 'service.warning' }, 'mind this')
  const lines = written.map(line => line.replace(COLOUR, '').replace(/\d/g, '0'))
  assert.deepEqual(lines, [
    '[00:00:00] INFO: service.started listening {"database":"sqlite"}\n',
    '[00:00:00] WARN: service.warning mind this\n',
  ])
})

test('no field is written with more than 512 characters', () => {
  const { log, written } = capture(false)
  const TEXTS = [
    ...['\u0000', '\u001b', '"', '\\', '\n', '\u2028', '\u202e', '\u009f', '\ud800', '\udc00'],
    ...['a', 'é', '漢', '🔑', 'a\u0000', '🔑\u0000'],
  ]
  for (const text of TEXTS) {
    for (const email of [text.repeat(254), text.repeat(15_000)]) {
      log.info({ event: 'login.failed', email, userAgent: text.repeat(256) })
      const line = written.at(-1) ?? ''
      const { email: logged, userAgent } = JSON.parse(line)
      assert.ok(email.startsWith(logged) && logged.length >= 80, JSON.stringify(text))
      assert.ok(line.length <= 2 * 512 + 100, `${JSON.stringify(text)}: ${line.length} characters`)
      assert.ok(userAgent.length > 0)
    }
  }
})

test('lines below the level are not logged', () => {
  const { log, written } = capture(false, 'warn')
  log.info({ event: 'x' })
  log.warn({ event: 'y' })
  assert.equal(written.length, 1)
  const silent = capture(false, 'silent')
  silent.log.fatal({ event: 'z' })
  assert.equal(silent.written.length, 0)
})

for (const [given, truncated] of [
  ['203.0.113.77', '203.0.113.0'],
  ['::ffff:203.0.113.77', '203.0.113.0'],
  ['2001:db8:1:2:3:4:5:6', '2001:db8:1::'],
  ['::1', '::'],
  ['kate@example.com', 'kate@example.com'],
  ['', ''],
] as const) {
  test(`"${given}" is logged in full, as "${truncated}", or not at all`, () => {
    for (const [logIp, expected] of [
      ['full', given],
      ['truncated', truncated],
      ['none', given === truncated ? given : undefined],
    ] as const) {
      const { log, written } = capture(false, 'info', logIp)
      log.info({ event: 'x', ip: given, target: given })
      log.child({ ip: given }).info({ event: 'x' })
      const [first, second] = written.map(line => JSON.parse(line))
      assert.deepEqual([first.ip, first.target, second.ip], [expected, expected, expected])
    }
  })
}

test('clients of one network are still counted apart', () => {
  const { log, written } = capture(false, 'info', 'truncated')
  const counted = createCountedLog(log)
  for (const ip of ['203.0.113.1', '203.0.113.1', '203.0.113.2']) {
    counted.write('warn', ip, { ip, requestId: '', userAgent: '' }, { event: 'x' })
  }
  counted.flush()
  const lines = written.map(line => JSON.parse(line))
  assert.ok(lines.every(({ ip }) => ip === '203.0.113.0'))
  const counts = lines.map(({ count }) => count)
  assert.deepEqual(counts, [undefined, undefined, 1])
})
