import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { describe, test } from 'node:test'
import bcrypt from 'bcrypt'
import { parseSecret } from '../../src/login/totp.ts'
import { createAuthenticator, newUserWithApp, SECOND_FACTOR } from '../support/authenticator.ts'
import { ENGINES_BY_RUN } from '../support/engines.ts'
import { scrape } from '../support/metrics.ts'
import { own } from '../support/own.ts'
import { freePort } from '../support/postgres-server.ts'
import { createRawClient } from '../support/raw-connection.ts'
import {
  type Call,
  createAddresses,
  LOGIN,
  loggedBy,
  PASSWORD,
  refusedLines,
  startTestService,
  TEST_COST,
  UNLIMITED,
} from '../support/service.ts'
import { ownSessions } from '../support/session-client.ts'
import { storedText } from '../support/stored-text.ts'

const AUTH = '/api/v1/auth'
/** Part of every value that must never be logged. */
const CANARY = 'c4n4ry'
const SECRET_PASSWORD = `${CANARY} password`
/** The base32 of 22 bytes. */
const CANARY_SECRET = CANARY.repeat(6)
/** Of the form of a login code and of a verifier. */
const CODE = CANARY.padEnd(43, 'x')
const REDEEMED = { code: CODE, verifier: CODE }
const LEAVING = `/login?return_to=https://a.example/${CANARY}&challenge=${CODE}`
const AGENT = 'Test/1.0 (logs)'
const UTC = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/
const JSON_TYPE = { 'Content-Type': 'application/json' }
const INVALID_TEXT = Buffer.from(`"${CANARY}\xff"`, 'latin1')
const COMPRESSED = { 'Content-Encoding': 'gzip' }
const HEADERS = {
  ...{ Authorization: `Bearer ${CANARY}`, 'X-CSRF-Token': CANARY, 'X-Request-ID': CANARY },
  ...{ Cookie: `__Host-session=${CANARY}; __Host-device=${CANARY}`, 'X-Forwarded-For': CANARY },
  ...{ 'Proxy-Authorization': CANARY, Referer: `https://example.com/?token=${CANARY}` },
  Origin: `https://${CANARY}.example`,
}

for (const engine of ENGINES_BY_RUN) {
  test(`at the level trace, too, no code of a second factor is logged, on ${engine}`, async () => {
    const service = await ownSessions(engine, { ...UNLIMITED, LOG_LEVEL: 'trace' })
    const { email, app, recoveryCodes } = await newUserWithApp(service, createAddresses())
    const [recoveryCode = ''] = recoveryCodes
    const typed = recoveryCode.toUpperCase().replaceAll('-', ' ')
    const [right, wrong] = [app.code(), app.wrongCode()]
    const attempts: [otp: string, status: number][] = [
      [wrong, 401],
      [right, 200],
      [right, 401],
      [typed, 200],
      [typed, 401],
    ]
    for (const [otp, status] of attempts) {
      const answer = await service.call({ body: { email, password: PASSWORD, otp } })
      assert.equal(answer.status, status)
    }
    assert.ok(service.logged().some(({ level }) => level === 'debug'))
    const words = new Set(service.logText().match(/\w+/g))
    for (const code of [right, wrong]) assert.ok(!words.has(code), code)
    assert.ok(!service.logText().includes(typed))
  })

  describe(`the log on ${engine}`, async () => {
    const opsPort = await freePort()
    const budgets = { THROTTLE_PAIR_FAILURES: '200', THROTTLE_EMAIL_FAILURES: '201' }
    const env = { OPS_PORT: String(opsPort), ...budgets, THROTTLE_CLIENT_FAILURES: '1000000' }
    const service = await own(startTestService(engine, env))

    function attempt(email: string, password: string, call: Call = {}) {
      const headers = { 'User-Agent': AGENT, ...call.headers }
      return service.call({ body: { email, password }, ...call, headers })
    }

    describe('has no secret', async () => {
      // A refusal that repeats would be counted, and its count logged during a later test.
      const newAddress = createAddresses()
      const password = SECRET_PASSWORD
      const email = 'secret@example.com'
      const passwordHash = await bcrypt.hash(password, TEST_COST)
      await service.addUser(email, { passwordHash })
      const assertNoSecret = (text: string) => {
        assert.ok(!text.toLowerCase().includes(CANARY) && !text.includes(passwordHash))
      }

      const change = (currentPassword: string, newPassword: unknown): Call => ({
        path: `${AUTH}/password`,
        body: { email, currentPassword, newPassword },
      })

      const owner = 'owner@example.com'
      await service.addUser(owner, { passwordHash })
      const app = createAuthenticator(service.now, parseSecret(CANARY_SECRET) ?? undefined)
      const setUp = (body: object): Call => ({
        path: SECOND_FACTOR,
        body: { email: owner, password, ...body },
      })
      const withCode = (otp: unknown): Call => ({ body: { email: owner, password, otp } })
      const passkeyOf = (text: unknown) => ({
        ...{ id: text, clientDataJSON: text, authenticatorData: text, signature: text },
        ...{ publicKey: text, name: text, algorithm: -7 },
      })
      const withPasskey = (text: unknown, otp?: string): Call => ({
        body: { email: owner, password, otp, passkey: passkeyOf(text) },
      })

      /** The reason is that of a request that is refused before it does anything. */
      const CALLS: [what: string, call: Call | (() => Call), status: number, reason?: string][] = [
        ['a right password', { body: { email, password } }, 200],
        ['a wrong password', { body: { email, password: `${password}!` } }, 401],
        ['an over-long password', { body: { email, password: CANARY.repeat(100) } }, 401],
        ['an unknown email', { body: { email: 'unknown@example.com', password } }, 401],
        ['a password in place of the email', { body: { email: password, password } }, 401],
        ['a short new password', change(password, 'short'), 400],
        ['a wrong current password', change(`${password}!`, `${CANARY} new`), 401],
        ['a new password of another type', change(CANARY, { newPassword: CANARY }), 400],
        ['half a character', change(`${CANARY} \ud83d`, `${CANARY} \ud83d`), 400],
        ['a change of the password', change(password, `${password} changed`), 200],
        ['its change back', change(`${password} changed`, password), 200],
        ['a code that is not needed', { body: { email, password, otp: CANARY } }, 200],
        ['a code of another type', withCode({ otp: CANARY }), 400, 'invalid-fields'],
        ['a secret of another type', setUp({ secret: [CANARY] }), 400, 'invalid-fields'],
        ['a malformed secret', setUp({ secret: `${CANARY}!`, newOtp: CANARY }), 400],
        ['a secret without a code', setUp({ secret: CANARY_SECRET }), 400, 'invalid-fields'],
        ['a wrong new code', setUp({ secret: CANARY_SECRET, newOtp: CANARY }), 400],
        // Its code is good for a minute, and the tests before it may take longer.
        ['a set-up', () => setUp({ secret: CANARY_SECRET, newOtp: app.code() }), 200],
        ['a missing code', withCode(''), 401],
        ['a wrong code', withCode(CANARY), 401],
        ['a long code', withCode(CANARY.repeat(1_000)), 401],
        ['a wrong code for a removal', setUp({ secret: null, otp: CANARY }), 401],
        ['a wrong passkey', withPasskey(CANARY), 401],
        ['a passkey of another type', withPasskey([CANARY]), 400, 'invalid-fields'],
        ['a passkey beside a code', withPasskey(CANARY, CANARY), 400, 'invalid-fields'],
        ['a new passkey', setUp({ newPasskey: passkeyOf(CANARY) }), 401],
        ['unknown keys', { body: { email, password: 'x', [CANARY]: { token: CANARY } } }, 401],
        ['no email', { body: { password } }, 400, 'invalid-fields'],
        ['an email of another type', { body: { email: { password } } }, 400, 'invalid-fields'],
        ['a list of passwords', { body: { email, password: [password] } }, 400, 'invalid-fields'],
        ['broken JSON', jsonCall(`{"${CANARY}`), 400, 'malformed-json'],
        ['a broken token', jsonCall(`{"${CANARY}`, '/refresh'), 400, 'malformed-json'],
        ['invalid UTF-8', jsonCall(INVALID_TEXT), 400, 'malformed-json'],
        ['another type', { body: CANARY, headers: { 'Content-Type': 'a/b' } }, 415, 'media-type'],
        ['a compressed body', { body: { CANARY }, headers: COMPRESSED }, 415, 'media-type'],
        ['an expectation', { body: {}, headers: { Expect: CANARY } }, 417, 'expectation'],
        ['a large body', { body: { password: CANARY.repeat(4_000) } }, 413, 'body-too-large'],
        ['a long query', { path: `${LOGIN}?${CANARY.repeat(2_000)}` }, 400, 'bad-request'],
        ['a wrong escape', { method: 'GET', path: `/%zz${CANARY}` }, 400, 'bad-request'],
        ['credentials in the query', { path: `${LOGIN}?email=${email}&password=${CANARY}` }, 400],
        ['a code and its verifier', { path: `${AUTH}/code?code=${CANARY}`, body: REDEEMED }, 401],
        ['a code of another form', { path: `${AUTH}/code`, body: { code: { x: CANARY } } }, 400],
        ['a page that is asked for a code', { method: 'GET', path: LEAVING }, 200],
        ['an unknown path', { method: 'GET', path: `/${CANARY}?token=${CANARY}` }, 404],
        ['another method', { method: 'GET', path: `${LOGIN}?token=${CANARY}` }, 405],
        ['every header but the User-Agent', { body: { email, password }, headers: HEADERS }, 200],
      ]
      for (const [what, call, status, reason] of CALLS) {
        test(`for ${what}${reason ? `, which is refused: ${reason}` : ''}`, async () => {
          const lines = await refusedLines(service, async () => {
            const made = typeof call === 'function' ? call() : call
            const answer = await service.call({ from: newAddress(), ...made })
            assert.equal(answer.status, status)
            assertNoSecret(answer.text)
          })
          assertNoSecret(service.logText())
          if (reason === undefined) return
          assert.deepEqual(lines, [{ level: 'info', event: 'request.refused', reason }])
        })
      }

      const headers = Array.from({ length: 101 }, (_, i) => `X-${CANARY}-${i}: ${CANARY}\r\n`)
      const BYTES: [bytes: string, status: number, reason?: string][] = [
        [`${CANARY}\r\n\r\n`, 400],
        [`POST ${LOGIN} HTTP/1.1\r\nAuthorization ${CANARY}\r\n\r\n`, 400],
        [`POST /${CANARY} HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n`, 400, 'bad-request'],
        [`GET / HTTP/1.1\r\nHost: a\r\n${headers.join('')}\r\n`, 431, 'headers-too-large'],
      ]
      for (const [bytes, status, reason] of BYTES) {
        test(`for bytes that no client library sends, with ${reason ?? 'no line'}`, async () => {
          const client = await createRawClient(service)
          const lines = await refusedLines(service, async () => {
            const answers = await client.send(bytes)
            assert.deepEqual([answers[0]?.status, answers.length], [status, 1])
          })
          assertNoSecret(service.logText())
          const line = { level: 'info', event: 'request.refused', reason }
          assert.deepEqual(lines, reason ? [line] : [])
        })
      }

      test('of all these, nor have the metrics and the database', async () => {
        const series = await scrape(opsPort)
        assert.ok(series.size > 0)
        assert.ok(![...series.keys()].some(text => text.includes(CANARY)))
        const stored = await storedText(service.database)
        assert.ok(stored.includes(email))
        assert.ok(!stored.toLowerCase().includes(CANARY))
      })

      test('for a login that fails in the database, which is logged as one error', async () => {
        await service.database.rows('alter table users rename to gone')
        const lines = await loggedBy(service, async () => {
          const answer = await attempt(email, password)
          assert.equal(answer.status, 500)
          assert.doesNotMatch(answer.text, /users|sql|select/i)
        })
        await service.database.rows('alter table gone rename to users')
        const [line, ...others] = lines
        assert.deepEqual(others, [])
        const { level, event, ip, err } = line ?? {}
        assert.deepEqual([level, event, ip], ['error', 'request.failed', '127.0.0.1'])
        assert.match(JSON.stringify(err), /users/)
        assert.deepEqual(Object.keys(Object(err)), ['type', 'code', 'message', 'stack'])
        assertNoSecret(service.logText())
      })
    })

    test('has the user or email, client, user agent, outcome and time of every attempt', async () => {
      const id = await service.addUser('told@example.com')
      const failed = { event: 'login.failed', level: 'warn' }
      const wrong = { ...failed, email: 'told@example.com', reason: 'wrong-password' }
      const unknown = { ...failed, email: 'stranger@example.com', reason: 'unknown-email' }
      const OUTCOMES: [email: string, password: string, line: Record<string, unknown>][] = [
        ['Told@Example.com', PASSWORD, { event: 'login.succeeded', level: 'info', userId: id }],
        ['told@example.com', 'wrong', wrong],
        ['Stranger@example.com', 'wrong', unknown],
      ]
      for (const [email, password, expected] of OUTCOMES) {
        const requestId = randomUUID()
        const call = { headers: { 'X-Request-ID': requestId }, from: '127.0.0.7' }
        const lines = await loggedBy(service, () => attempt(email, password, call))
        assert.equal(lines.length, 1)
        const { time, sessionId: _, durationMs, ...line } = lines[0] ?? {}
        assert.deepEqual(line, { ...expected, requestId, ip: '127.0.0.7', userAgent: AGENT })
        assert.match(String(time), UTC)
        const isWhole = Number.isInteger(durationMs) && Number(durationMs) > 0
        assert.equal(isWhole, expected.event === 'login.succeeded', 'milliseconds of a login')
        assert.ok(Math.abs(Date.parse(String(time)) - Date.now()) < 60_000)
      }
    })

    test('has no text in the place of an email that may be a password, and long texts cut', async () => {
      await service.addUser('root@localhost')
      const headers = { 'User-Agent': 'u'.repeat(10_000) }
      for (const [typed, told = '(no email)'] of [
        ['correct horse'],
        ['P@ssw0rd!'],
        ['root@localhos'],
        ['1.P@ss'],
        ['P@ss.'],
        ['@ss.word'],
        ['my p@ss.word'],
        [`a@${'.'.repeat(9_000)} b`],
        [`${'e'.repeat(9_000)}@example.com`, `${'e'.repeat(254)}…`],
        // A user has this email.
        ['Root@localhost', 'root@localhost'],
        [' Ann.Lee+x@Mail.Example.com ', 'ann.lee+x@mail.example.com'],
      ] as const) {
        const [line] = await loggedBy(service, () => attempt(typed, 'x', { headers }))
        assert.equal(line?.email, told)
        assert.equal(line?.userAgent, 'u'.repeat(256))
      }
    })

    test('has an alarm at every 100th failure, throttled attempts and the lock of the account', async () => {
      const userId = await service.addUser('attacked@example.com')
      const lines = await loggedBy(service, async () => {
        for (let index = 0; index < 201; index++) {
          await attempt('attacked@example.com', 'wrong', { from: `127.0.1.${index % 2}` })
        }
        await attempt('attacked@example.com', 'wrong', { from: '127.0.1.3' })
        await attempt('attacked@example.com', 'wrong', { from: '127.0.1.4' })
      })
      const others = lines.filter(({ event }) => event !== 'login.failed')
      const told = others.map(({ time: _, requestId: __, userAgent: ___, ...line }) => line)
      // Failures after a hash are logged one by one.
      assert.equal(lines.length - others.length, 201)
      const failed = { level: 'warn', email: 'attacked@example.com', ip: '127.0.1.3' }
      const throttled = { ...failed, event: 'login.throttled', scope: 'email' }
      assert.deepEqual(told, [
        { level: 'error', event: 'account.alarm', userId, failures: 100, ip: '127.0.1.1' },
        { level: 'error', event: 'account.alarm', userId, failures: 200, ip: '127.0.1.1' },
        throttled,
        { level: 'warn', event: 'account.locked', userId, ip: '127.0.1.3' },
        { ...throttled, ip: '127.0.1.4' },
      ])
    })
  })
}

function jsonCall(body: string | Buffer, path = '/login'): Call {
  return { path: `${AUTH}${path}`, body, headers: JSON_TYPE }
}
