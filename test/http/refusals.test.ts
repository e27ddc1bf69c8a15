// Every refusal is logged in one line with its reason and without secrets; repeated ones are counted. The answer is the
// same for all reasons.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { loadKeySet } from '../../src/keys/key-file.ts'
import { ENGINES_BY_RUN } from '../support/engines.ts'
import { inParallel, own } from '../support/own.ts'
import {
  type Call,
  countStatuses,
  createAddresses,
  LOGIN,
  loggedBy,
  refusedLines,
} from '../support/service.ts'
import {
  AUTH,
  bearer,
  cookie,
  INVALID_TOKEN,
  type Login,
  MINUTE_MS,
  resigned,
  startSessionService,
} from '../support/session-client.ts'

const LISTED = 'https://app.example.com'
const UNLISTED = 'https://evil.example'
const CANARY = 'c4n4ry'
const CHALLENGE = 'Bearer realm="login"'
const INVALID = `${CHALLENGE}, error="invalid_token"`

for (const engine of ENGINES_BY_RUN) {
  describe(`refusals on ${engine}`, async () => {
    const env = { CORS_ORIGINS: LISTED, RETURN_TO_ORIGINS: LISTED }
    const service = await own(startSessionService(engine, env, createAddresses()))
    const keys = await loadKeySet(join(service.dataDir, 'signing-keys.json'))
    const [accessKey, refreshKey] = [keys.accessKeys[0], keys.refreshKeys[0]]
    assert.ok(accessKey && refreshKey)

    const newLogin = async () => service.browserLogin(await service.newUser())
    const onUser = ({ userId }: Login, change: string) =>
      service.database.rows(`update users set ${change} where id = '${userId}'`)
    const onSession = ({ sessionId }: Login, change: string) =>
      service.database.rows(`update sessions set ${change} where id = '${sessionId}'`)
    const signed = ({ refreshToken }: Login, header: object, claims: object = {}) =>
      resigned(refreshToken, refreshKey.signingKey, header, claims)
    const ofStranger = (token: string) =>
      resigned(token, accessKey.signingKey, {}, { sub: randomUUID() })
    const changed = (token: string) => `${token.slice(0, -9)}${CANARY}${token.slice(-3)}`
    const FAR = '2999-01-01T00:00:00.000Z'
    const PAST = '2001-01-01T00:00:00.000Z'

    const PRESENT = {
      'refresh-token': (token: string) => service.refresh(token),
      'access-token': (token: string) => service.get('/session', bearer(token)),
      cookie: (value: string) => service.get('/session', cookie(value)),
    }
    type Credential = keyof typeof PRESENT

    async function isRefused(credential: Credential, reason: string, value: string) {
      const lines = await refusedLines(service, async () => {
        const { status, text, headers } = await PRESENT[credential](value)
        assert.deepEqual([status, text], [401, INVALID_TOKEN])
        assert.equal(headers['www-authenticate'], credential === 'cookie' ? CHALLENGE : INVALID)
      })
      assert.deepEqual(lines, [{ level: 'info', event: 'session.refused', credential, reason }])
    }

    const afterIdle = (value: string) => {
      service.advance(31 * MINUTE_MS)
      return value
    }
    type ToValue = (login: Login) => Promise<string> | string
    // src/session/tokens.test.ts has all reasons.
    const CASES: [Credential, reason: string, ToValue][] = [
      ['refresh-token', 'malformed', () => `${CANARY}.${CANARY}.${CANARY}`],
      ['refresh-token', 'bad-signature', ({ refreshToken }) => changed(refreshToken)],
      ['refresh-token', 'bad-signature', ({ refreshToken }) => `${refreshToken} `],
      ['refresh-token', 'unknown-key', it => signed(it, { kid: CANARY })],
      ['refresh-token', 'wrong-issuer', it => signed(it, {}, { iss: `https://${CANARY}.net` })],
      ['refresh-token', 'unknown-token', it => signed(it, {}, { jti: randomUUID() })],
      ['refresh-token', 'unknown-token', it => signed(it, {}, { exp: 9_999_999_999 })],
      ['access-token', 'malformed', () => CANARY],
      ['access-token', 'bad-signature', ({ accessToken }) => changed(accessToken)],
      ['access-token', 'wrong-type', ({ refreshToken }) => refreshToken],
      ['access-token', 'wrong-user', ({ accessToken }) => ofStranger(accessToken)],
      ['cookie', 'unknown-session', () => 'A'.repeat(43)],
      ['cookie', 'cookie-idle', ({ cookie: value }) => afterIdle(value)],
    ]
    for (const [credential, reason, toValue] of CASES) {
      test(`the ${credential} is refused, and ends no session: ${reason}`, async () => {
        const login = await newLogin()
        const value = await toValue(login)
        await isRefused(credential, reason, value)
        if (credential === 'cookie') return
        const byToken = { path: `${AUTH}/logout`, headers: bearer(value) }
        const lines = await refusedLines(service, async () => {
          const { status } = await (credential === 'refresh-token'
            ? service.logout(value)
            : service.call(byToken))
          assert.equal(status, 200)
        })
        assert.deepEqual(lines, [{ level: 'info', event: 'session.refused', credential, reason }])
        assert.equal((await service.refresh(login.refreshToken)).status, 200)
      })
    }

    const ENDED: [reason: string, end: (login: Login) => unknown][] = [
      ['session-ended', login => service.store.sessions.end(login.sessionId, service.now())],
      ['session-expired', login => onSession(login, `expires_at = '${PAST}'`)],
      ['session-expired', login => onSession(login, `idle_expires_at = '${PAST}'`)],
      ['user-inactive', login => onUser(login, `is_active = ${engine === 'sqlite' ? 0 : false}`)],
      ['user-locked', login => onUser(login, `locked_until = '${FAR}'`)],
    ]
    for (const [reason, end] of ENDED) {
      test(`every credential of a session is refused: ${reason}`, async () => {
        const login = await newLogin()
        await end(login)
        await isRefused('refresh-token', reason, login.refreshToken)
        await isRefused('access-token', reason, login.accessToken)
        await isRefused('cookie', reason, login.cookie)
      })
    }

    test('a wrong password and a request without a credential get a challenge; the latter is not logged', async () => {
      const { headers } = await service.login(await service.newUser(), 'wrong')
      assert.equal(headers['www-authenticate'], CHALLENGE)
      const lines = await loggedBy(service, async () => {
        for (const sent of [{}, { Authorization: `Basic ${CANARY}` }]) {
          const { status, headers } = await service.get('/session', sent)
          assert.deepEqual([status, headers['www-authenticate']], [401, CHALLENGE])
        }
      })
      assert.deepEqual(lines, [])
    })

    test('of two sessions that end all others at once, one is refused, and this is logged', async () => {
      for (let round = 0; round < 10; round++) {
        const email = await service.newUser()
        const logins = [await service.programLogin(email), await service.programLogin(email)]
        const lines = await loggedBy(service, async () => {
          const answers = await inParallel(2, index =>
            service.delete('/sessions', bearer(logins[index]?.accessToken ?? '')),
          )
          assert.deepEqual(countStatuses(answers), { 200: 1, 401: 1 })
        })
        const refused = lines.filter(({ event }) => event === 'session.refused')
        assert.equal(refused.length, 1)
        assert.partialDeepStrictEqual(refused, [
          { credential: 'access-token', reason: 'session-ended' },
        ])
      }
    })

    test('an unlisted origin is logged, cut to 256 characters; own and listed origins are not logged', async () => {
      const jwks = { method: 'GET', path: '/.well-known/jwks.json' }
      const preflight = { 'Access-Control-Request-Method': 'POST' }
      const CASES: [headers: Record<string, string>, origin: string | null, call?: Call][] = [
        [{ Origin: UNLISTED }, UNLISTED],
        [{ Origin: 'null' }, 'null'],
        [{ Origin: `https://${'x'.repeat(5_000)}` }, `https://${'x'.repeat(248)}`],
        [{ Origin: UNLISTED, ...preflight }, UNLISTED, { method: 'OPTIONS' }],
        [{ Origin: UNLISTED }, UNLISTED, { ...jwks, path: '/nothing' }],
        [{}, null],
        [{ Origin: LISTED }, null],
        [{ Origin: `https://${new URL(service.url).host}` }, null],
        [{ Origin: UNLISTED, 'Sec-Fetch-Site': 'same-origin' }, null],
      ]
      for (const [headers, origin, call = jwks] of CASES) {
        const lines = await refusedLines(service, () => service.call({ ...call, headers }))
        const line = { level: 'warn', event: 'request.refused', reason: 'origin', origin }
        assert.deepEqual(lines, origin === null ? [] : [line])
      }
    })

    test('a refused return_to is logged with its origin, and without its other parts', async () => {
      const CASES: [returnTo: string, origin: string | null | undefined][] = [
        [`${UNLISTED}/${CANARY}?token=${CANARY}#${CANARY}`, UNLISTED],
        [`https://${CANARY}:${CANARY}@evil.example/`, UNLISTED],
        // As it was sent: in its normal form it would look like a listed one.
        [`${LISTED.toUpperCase()}/${CANARY}`, LISTED.toUpperCase()],
        [`${LISTED}:443?${CANARY}`, `${LISTED}:443`],
        [`https://user@${LISTED.slice(8)}/`, LISTED],
        [`https://e\tvil.example/${CANARY}`, UNLISTED],
        [`https://${'evil.'.repeat(100)}example/`, `https://${'evil.'.repeat(50)}`.slice(0, 256)],
        [`//evil.example/${CANARY}`, undefined],
        [`javascript:${CANARY}`, 'null'],
        [`${LISTED}\\@evil.example/${CANARY}`, LISTED],
        [`${UNLISTED}/${CANARY.repeat(400)}`, undefined],
        ['', undefined],
        [`${LISTED}/${CANARY}`, null],
      ]
      const queries = CASES.map(
        ([returnTo, origin]) => [`return_to=${encodeURIComponent(returnTo)}`, origin] as const,
      )
      queries.push([`return_to=${UNLISTED}&return_to=${LISTED}`, undefined])
      for (const [query, origin] of queries) {
        const lines = await refusedLines(service, async () => {
          const { status } = await service.call({ method: 'GET', path: `/login?${query}` })
          assert.equal(status, 200)
        })
        const line = { level: 'warn', event: 'request.refused', reason: 'return-to' }
        const expected = origin === undefined ? [line] : [{ ...line, origin }]
        assert.deepEqual(lines, origin === null ? [] : expected, query)
      }
    })

    test('an address or a method that does not exist is not logged', async () => {
      const lines = await loggedBy(service, async () => {
        assert.equal((await service.call({ method: 'GET', path: '/nothing' })).status, 404)
        assert.equal((await service.call({ method: 'GET', path: LOGIN })).status, 405)
      })
      assert.deepEqual(lines, [])
    })

    test('a client that is refused again and again writes one line, then counts, the last ones as the service ends', async () => {
      /** Escaped, both exceed the 512 characters to which a logged text is cut. */
      const email = `${'\u0001'.repeat(300)}@`
      const headers = { 'User-Agent': '\u0080'.repeat(300) }
      const CALLERS: [event: string, from: string, body: object][] = [
        ['request.refused', '127.0.0.2', { email }],
        ['login.throttled', '127.0.0.3', { email, password: 'x' }],
      ]
      const TIMES = 200
      await inParallel(5, () => service.login(email, 'x', '127.0.0.3'))
      await service.assertSecretsKept()
      const startMs = performance.now()
      const lines = await loggedBy(service, async () => {
        for (const [, from, body] of CALLERS) {
          for (let i = 0; i < TIMES; i++) await service.call({ from, headers, body })
        }
        await service.stop()
      })
      assert.ok(!service.logText().includes(CANARY))
      // Counts are written once a second.
      const most = 2 + (performance.now() - startMs) / 1_000
      for (const [event, from] of CALLERS) {
        const told = lines.filter(({ ip }) => ip === from)
        assert.ok(told.length <= most, `${told.length} lines instead of ${most}`)
        const bytes = JSON.stringify(told).length
        assert.ok(bytes < 1_200 + 250 * most, `${bytes} bytes`)
        assert.equal(
          told.reduce((sum, { count = 1 }) => sum + Number(count), 0),
          TIMES,
        )
        assert.deepEqual(
          told.map(line => [line.event, 'userAgent' in line, 'email' in line]),
          told.map((_, i) => [event, i === 0, i === 0 && event === 'login.throttled']),
        )
      }
    })
  })
}
