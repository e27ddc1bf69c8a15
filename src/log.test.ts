import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { createLog } from './log.ts'

const CANARY = 'c4n4ry'
const COLOUR = new RegExp(`${String.fromCharCode(0x1b)}\\[\\d+m`, 'g')

const UNSAFE = /[\p{Cc}\p{Zl}\p{Zp}\p{Bidi_Control}]/u
const HOSTILE = [
  ...[
    'a\r\nb',
    '\u001b[2J',
    '\u0007',
    '\u0000',
    '\u007f',
    '\u0085',
    '\u009b2J',
    '\u2028',
    '\u2029',
  ],
  ...['\u202ereversed', '\u2066x', '\u200fx', '"}\n{"event":"login.succeeded"}', '\ud800', '\\n'],
  ...['{event}', '{msg}', '%s%o%j', '\t'],
]

function capture(isTTY: boolean) {
  const written: string[] = []
  const output = { isTTY, write: (text: string) => written.push(text) }
  return { log: createLog('trace', output), written }
}

const FORMS: [form: string, isTTY: boolean][] = [
  ['programs', false],
  ['a terminal', true],
]

for (const [form, isTTY] of FORMS) {
  describe(`a log for ${form}`, () => {
    test('has one line an event, with its fields', () => {
      const { log, written } = capture(isTTY)
      log.info({ event: 'login.succeeded', userId: 'u1' })
      log.warn({ event: 'service.warning' }, 'mind this')
      assert.equal(written.length, 2)
      for (const line of written) assert.match(line, /^[^\n]+\n$/)
      assert.match(String(written[0]), /login\.succeeded/)
      assert.match(String(written[0]), /"userId":"u1"/)
      assert.match(String(written[1]), /service\.warning/)
      assert.match(String(written[1]), /mind this/)
    })

    const SECRETS = [
      ...['password', 'passwordHash', 'password_hash', 'accessToken', 'refreshToken', 'token'],
      ...['authorization', 'cookie', 'headers', 'body', 'query', 'url'],
    ]
    for (const name of SECRETS) {
      test(`never shows "${name}", at no depth that is logged`, () => {
        const { log, written } = capture(isTTY)
        log.info({ event: 'x', [name]: CANARY, a: { [name]: CANARY, b: { [name]: CANARY } } })
        log.child({ [name]: CANARY, req: { [name]: CANARY } }).error({ event: 'y' })
        assert.equal(written.length, 2)
        assert.ok(!written.join('').includes(CANARY))
      })
    }

    test('shows of a fault its name, code, message and place, and no details', () => {
      const { log, written } = capture(isTTY)
      const fault = Object.assign(new TypeError(`relation${HOSTILE.join('')} does not exist`), {
        code: '42P01',
        detail: CANARY,
        parameters: [CANARY],
        rawPacket: Buffer.from(CANARY),
        query: CANARY,
        cause: new Error(CANARY),
      })
      log.error({ event: 'request.failed', err: fault })
      log.error(fault)
      const text = written.join('')
      for (const part of ['TypeError', '42P01', 'relation', 'does not exist', 'log.test.ts']) {
        assert.ok(text.includes(part), part)
      }
      assert.ok(!text.includes(CANARY))
      // What belongs to a line but stands below it is indented: no new event can be forged.
      for (const entry of written) {
        const lines = entry.replace(COLOUR, '').trimEnd().split('\n')
        for (const line of lines) assert.doesNotMatch(line, UNSAFE)
        for (const below of lines.slice(1)) assert.match(below, /^ {4}/)
      }
    })

    test('does not show what was thrown if it is no error', () => {
      const { log, written } = capture(isTTY)
      for (const thrown of [CANARY, { password: CANARY }, [CANARY], null]) {
        log.error({ event: 'request.failed', err: thrown })
      }
      assert.equal(written.length, 4)
      assert.ok(!written.join('').includes(CANARY))
    })

    for (const hostile of HOSTILE) {
      test(`keeps ${JSON.stringify(hostile).replace(/\P{ASCII}/gu, '?')} within its line`, () => {
        const { log, written } = capture(isTTY)
        log.child({ userAgent: hostile }).warn({ event: 'login.failed', email: hostile })
        assert.equal(written.length, 1)
        const [line = ''] = written
        assert.match(line, /^[^\n]+\n$/)
        // Colours are the log's own; nothing else may command a terminal or turn the text around.
        const plain = line.slice(0, -1).replace(COLOUR, '')
        assert.doesNotMatch(plain, UNSAFE)
        assert.equal(plain.match(/login\./g)?.length, hostile.includes('login.') ? 3 : 1)
        if (!isTTY) assert.equal(JSON.parse(line).email, hostile)
      })
    }
  })
}

test('the lines of a log that is read by programs carry UTC time and level by name', () => {
  const { log, written } = capture(false)
  log.error({ event: 'x' })
  const { time, ...line } = JSON.parse(String(written[0]))
  assert.deepEqual(line, { level: 'error', event: 'x' })
  assert.match(time, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
})

test('nothing below its level is logged', () => {
  const written: string[] = []
  const log = createLog('warn', { write: (text: string) => written.push(text) })
  log.info({ event: 'x' })
  log.warn({ event: 'y' })
  assert.equal(written.length, 1)
  const silent = createLog('silent', { write: (text: string) => written.push(text) })
  silent.fatal({ event: 'z' })
  assert.equal(written.length, 1)
})
