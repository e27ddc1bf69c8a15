import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { after, before, describe, test } from 'node:test'
import { connect } from 'node:tls'
import bcrypt from 'bcrypt'
import { ENGINES_BY_RUN } from '../support/engines.ts'
import { scrape } from '../support/metrics.ts'
import { freePort } from '../support/postgres-server.ts'
import {
  type Call,
  createAddresses,
  LOGIN,
  loggedBy,
  PASSWORD,
  startTestService,
  TEST_COST,
  type TestService,
} from '../support/service.ts'
import { storedText } from '../support/stored-text.ts'

const AUTH = '/api/v1/auth'
/** Part of every value that must never be logged. */
const CANARY = 'c4n4ry'
const SECRET_PASSWORD = `${CANARY} password`
/** Of the form of a login code and of a verifier. */
const CODE = CANARY.padEnd(43, 'x')
const AGENT = 'Test/1.0 (logs)'
const UTC = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/
const JSON_TYPE = { 'Content-Type': 'application/json' }

for (const engine of ENGINES_BY_RUN) {
  describe(`the log on ${engine}`, () => {
    let service: TestService
    let opsPort: number
    before(async () => {
      opsPort = await freePort()
      service = await startTestService(engine, {
        OPS_PORT: String(opsPort),
        THROTTLE_PAIR_FAILURES: '200',
        THROTTLE_EMAIL_FAILURES: '201',
        THROTTLE_CLIENT_FAILURES: '1000000',
      })
    })
    after(() => service.stop())

    function attempt(email: string, password: string, call: Call = {}) {
      const headers = { 'User-Agent': AGENT, ...call.headers }
      return service.call({ body: { email, password }, ...call, headers })
    }

    describe('has no secret', () => {
      // A refusal that repeats would be counted, and its count logged during a later test.
      const newAddress = createAddresses()
      const password = SECRET_PASSWORD
      const email = 'secret@example.com'
      let passwordHash: string
      before(async () => {
        passwordHash = await bcrypt.hash(password, TEST_COST)
        await service.addUser(email, { passwordHash })
      })

      const CALLS: [what: string, call: Call, status: number][] = [
        ['a right password', { body: { email, password } }, 200],
        ['a wrong password', { body: { email, password: `${password}!` } }, 401],
        ['an over-long password', { body: { email, password: CANARY.repeat(100) } }, 401],
        ['an unknown email', { body: { email: 'unknown@example.com', password } }, 401],
        ['no email', { body: { password } }, 400],
        ['a password in place of the email', { body: { email: password, password } }, 401],
        ...[
          [password, 'short', 400],
          [`${password}!`, `${CANARY} new`, 401],
          [CANARY, { newPassword: CANARY }, 400],
          [`${CANARY} \ud83d`, `${CANARY} \ud83d`, 400],
          [password, `${password} changed`, 200],
          [`${password} changed`, password, 200],
        ].map(([currentPassword, newPassword, status], i): [string, Call, number] => [
          `a change of the password (${i})`,
          { path: `${AUTH}/password`, body: { email, currentPassword, newPassword } },
          Number(status),
        ]),
        ['an email of another type', { body: { email: { password }, password } }, 400],
        ['a password of another type', { body: { email, password: [password] } }, 400],
        ['unknown keys', { body: { email, password: 'x', [CANARY]: { token: CANARY } } }, 401],
        ['broken JSON', { body: `{"password":"${CANARY}`, headers: JSON_TYPE }, 400],
        [
          'invalid UTF-8',
          { body: Buffer.from(`"${CANARY}\xff"`, 'latin1'), headers: JSON_TYPE },
          400,
        ],
        ['another type', { body: `password=${CANARY}`, headers: { 'Content-Type': 'a/b' } }, 415],
        ['a body that is too large', { body: { password: CANARY.repeat(4_000) } }, 413],
        ['a query that is too long', { path: `${LOGIN}?token=${CANARY.repeat(1_000)}` }, 400],
        ['credentials in the query', { path: `${LOGIN}?email=${email}&password=${CANARY}` }, 400],
        [
          'a code and its verifier',
          { path: `${AUTH}/code?code=${CANARY}`, body: { code: CODE, verifier: CODE } },
          401,
        ],
        ['a code of another form', { path: `${AUTH}/code`, body: { code: { x: CANARY } } }, 400],
        [
          'a page that is asked for a code',
          { method: 'GET', path: `/login?return_to=https://a.example/${CANARY}&challenge=${CODE}` },
          200,
        ],
        ['an unknown path', { method: 'GET', path: `/${CANARY}?token=${CANARY}` }, 404],
        ['another method', { method: 'GET', path: `${LOGIN}?token=${CANARY}` }, 405],
        [
          'every header but the User-Agent',
          {
            body: { email, password },
            headers: {
              Authorization: `Bearer ${CANARY}`,
              Cookie: `__Host-session=${CANARY}; __Host-device=${CANARY}`,
              'X-CSRF-Token': CANARY,
              'X-Request-ID': CANARY,
              'Proxy-Authorization': CANARY,
              Referer: `https://example.com/?token=${CANARY}`,
              Origin: `https://${CANARY}.example`,
              'X-Forwarded-For': CANARY,
            },
          },
          200,
        ],
      ]
      for (const [what, call, status] of CALLS) {
        test(`for ${what}`, async () => {
          const answer = await service.call({ from: newAddress(), ...call })
          assert.equal(answer.status, status)
          assert.ok(!answer.text.includes(CANARY))
          assert.ok(!service.logText().includes(CANARY))
          assert.ok(!service.logText().includes(passwordHash))
        })
      }

      test('of all these, nor have the metrics and the database', async () => {
        const series = await scrape(opsPort)
        assert.ok(series.size > 0)
        assert.ok(![...series.keys()].some(text => text.includes(CANARY)))
        const stored = await storedText(service.database)
        assert.ok(stored.includes(email))
        assert.ok(!stored.includes(CANARY))
      })

      test('for issued tokens', async () => {
        const { data } = (await attempt(email, password)).json
        for (const token of [data.accessToken, data.refreshToken]) {
          for (const part of token.split('.')) assert.ok(!service.logText().includes(part))
        }
      })

      test('for bytes that are not HTTP and for an invalid path', async () => {
        const url = new URL(service.url)
        for (const request of [
          `POST ${LOGIN} HTTP/1.1\r\nAuthorization ${CANARY}\r\n\r\n`,
          `${CANARY}\r\n\r\n`,
          `GET /%zz${CANARY}?token=${CANARY} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`,
        ]) {
          const socket = connect({
            host: url.hostname,
            port: Number(url.port),
            rejectUnauthorized: false,
          })
          socket.resume().end(request)
          await once(socket, 'close')
        }
        assert.ok(!service.logText().includes(CANARY))
      })

      test('for a login that fails in the database, which is logged as one error', async () => {
        await service.database.rows('alter table users rename to gone')
        const lines = await loggedBy(service, async () => {
          const answer = await attempt(email, password)
          assert.equal(answer.status, 500)
          assert.doesNotMatch(answer.text, /users|sql|select/i)
        })
        await service.database.rows('alter table gone rename to users')
        assert.equal(lines.length, 1)
        const [line] = lines
        assert.equal(line?.level, 'error')
        assert.equal(line?.event, 'request.failed')
        assert.match(JSON.stringify(line?.err), /users/)
        assert.deepEqual(Object.keys(Object(line?.err)), ['type', 'code', 'message', 'stack'])
        assert.equal(line?.ip, '127.0.0.1')
        assert.ok(!service.logText().includes(CANARY))
        assert.ok(!service.logText().includes(passwordHash))
      })
    })

    test('has the user or email, client, user agent, outcome and time of every attempt', async () => {
      const id = await service.addUser('told@example.com')
      const OUTCOMES: [email: string, password: string, line: Record<string, unknown>][] = [
        ['Told@Example.com', PASSWORD, { event: 'login.succeeded', level: 'info', userId: id }],
        [
          'told@example.com',
          'wrong',
          {
            event: 'login.failed',
            level: 'warn',
            email: 'told@example.com',
            reason: 'wrong-password',
          },
        ],
        [
          'Stranger@example.com',
          'wrong',
          {
            event: 'login.failed',
            level: 'warn',
            email: 'stranger@example.com',
            reason: 'unknown-email',
          },
        ],
      ]
      for (const [email, password, expected] of OUTCOMES) {
        const requestId = randomUUID()
        const call = { headers: { 'X-Request-ID': requestId }, from: '127.0.0.7' }
        const lines = await loggedBy(service, () => attempt(email, password, call))
        assert.equal(lines.length, 1)
        const { time, sessionId: _, durationMs: __, ...line } = lines[0] ?? {}
        assert.deepEqual(line, { ...expected, requestId, ip: '127.0.0.7', userAgent: AGENT })
        assert.match(String(time), UTC)
        assert.ok(Math.abs(Date.parse(String(time)) - Date.now()) < 60_000)
      }
    })

    test('has one line per attempt, whatever characters are in the email', async () => {
      const emails = [
        ...['Not an email', 'a\r\nb@example.com', '\u001b[2j\u001b]0;x\u0007@example.com'],
        ...['a\u2028\u2029x@example.com\u0085y', '\u009b2j@example.com', '\u202egro.elpmaxe@a'],
        ...['"},{"event":"login.succeeded"}\\@example.com', 'a\u0000b\u007f@example.com'],
        ...['\ud800@example.com', '{event} %s %o {msg}@example.com'],
      ]
      const before = service.logText()
      const lines = await loggedBy(service, async () => {
        for (const email of emails) await attempt(email, 'wrong')
      })
      assert.deepEqual(
        lines.map(line => line.email),
        ['(no email)', ...emails.slice(1)],
      )
      const text = service.logText().slice(before.length)
      assert.equal(text.trimEnd().split(/[\r\n\u0085\u2028\u2029]/).length, emails.length)
      assert.doesNotMatch(text.replaceAll('\n', ''), /[\p{Cc}\u202e]/u)
    })

    test('has long emails and user agents cut', async () => {
      const headers = { 'User-Agent': 'u'.repeat(10_000) }
      const [line] = await loggedBy(service, () =>
        attempt(`${'e'.repeat(9_000)}@example.com`, 'x', { headers }),
      )
      assert.equal(line?.email, `${'e'.repeat(254)}…`)
      assert.equal(line?.userAgent, 'u'.repeat(256))
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
      const told = lines
        .filter(({ event }) => event !== 'login.failed')
        .map(({ time: _, requestId: __, userAgent: ___, ...line }) => line)
      const throttled = {
        level: 'warn',
        event: 'login.throttled',
        email: 'attacked@example.com',
        scope: 'email',
        ip: '127.0.1.3',
      }
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
