// Every refusal is logged in one line with its reason; the answer is the same for all reasons.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { decodeJwt, decodeProtectedHeader, SignJWT } from 'jose'
import { readKeyFile } from '../../src/keys/key-file.ts'
import { ENGINES_BY_RUN } from '../support/engines.ts'
import {
  type Answer,
  createAddresses,
  loggedBy,
  PASSWORD,
  refusedLines,
} from '../support/service.ts'
import {
  AUTH,
  bearer,
  CSRF_FAILED,
  cookie,
  INVALID_TOKEN,
  type Login,
  MINUTE_MS,
  ownChange,
  type SessionService,
  startSessionService,
} from '../support/session-client.ts'

const LISTED = 'https://app.example.com'
const UNLISTED = 'https://evil.example'
const CANARY = 'c4n4ry'

for (const engine of ENGINES_BY_RUN) {
  describe(`refusals on ${engine}`, () => {
    let service: SessionService
    let secret: Uint8Array
    before(async () => {
      const env = { CORS_ORIGINS: LISTED, RETURN_TO_ORIGINS: LISTED }
      service = await startSessionService(engine, env, createAddresses())
      const { keys } = await readKeyFile(join(service.dataDir, 'signing-keys.json'))
      secret = Buffer.from(keys.find(({ kty }) => kty === 'oct')?.k ?? '', 'base64url')
    })
    after(async () => {
      assert.ok(!service.logText().includes(CANARY))
      await service.assertSecretsKept()
      await service.stop()
    })

    const newLogin = async () => service.browserLogin(await service.newUser())
    const onUser = ({ userId }: Login, change: string) =>
      service.database.rows(`update users set ${change} where id = '${userId}'`)
    const onSession = ({ sessionId }: Login, change: string) =>
      service.database.rows(`update sessions set ${change} where id = '${sessionId}'`)
    const resigned = ({ refreshToken }: Login, header: object, claims: object) =>
      new SignJWT({ ...decodeJwt(refreshToken), ...claims })
        .setProtectedHeader({ alg: 'HS256', ...decodeProtectedHeader(refreshToken), ...header })
        .sign(secret)
    const changed = (token: string) => `${token.slice(0, -9)}${CANARY}${token.slice(-3)}`
    const FAR = '2999-01-01T00:00:00.000Z'
    const PAST = '2001-01-01T00:00:00.000Z'

    type Preparation = (login: Login) => unknown
    const ENDED: [reason: string, prepare: Preparation][] = [
      ['session-ended', login => service.store.sessions.end(login.sessionId, service.now())],
      ['session-expired', login => onSession(login, `expires_at = '${PAST}'`)],
      ['session-expired', login => onSession(login, `idle_expires_at = '${PAST}'`)],
      ['user-inactive', login => onUser(login, `is_active = ${engine === 'sqlite' ? 0 : false}`)],
      ['user-locked', login => onUser(login, `locked_until = '${FAR}'`)],
    ]

    async function isRefused(
      credential: string,
      reason: string,
      call: () => Promise<Answer>,
      challenge = 'Bearer realm="login", error="invalid_token"',
    ): Promise<void> {
      const lines = await refusedLines(service, async () => {
        const { status, text, headers } = await call()
        assert.deepEqual([status, text], [401, INVALID_TOKEN])
        assert.equal(headers['www-authenticate'], challenge)
      })
      assert.deepEqual(lines, [{ level: 'info', event: 'session.refused', credential, reason }])
    }

    const REFRESH_TOKENS: [reason: string, tokenOf: (login: Login) => Promise<string> | string][] =
      [
        ['malformed', () => CANARY],
        ['malformed', () => `${CANARY}.${CANARY}.${CANARY}`],
        ['malformed', login => resigned(login, {}, { jti: undefined })],
        ['bad-signature', ({ refreshToken }) => changed(refreshToken)],
        ['unknown-key', login => resigned(login, { kid: CANARY }, {})],
        ['wrong-algorithm', login => resigned(login, { alg: 'HS512' }, {})],
        ['wrong-type', ({ accessToken }) => accessToken],
        ['wrong-type', login => resigned(login, { typ: 'JWT' }, {})],
        ['wrong-issuer', login => resigned(login, {}, { iss: `https://${CANARY}.example` })],
        ['expired', login => resigned(login, {}, { exp: 1 })],
        ['unknown-token', login => resigned(login, {}, { jti: randomUUID() })],
      ]
    for (const [reason, tokenOf] of REFRESH_TOKENS) {
      test(`a refresh token is refused: ${reason}`, async () => {
        const token = await tokenOf(await newLogin())
        await isRefused('refresh-token', reason, () => service.refresh(token))
        const lines = await refusedLines(service, async () => {
          assert.equal((await service.logout(token)).status, 200)
        })
        assert.deepEqual(lines, [
          { level: 'info', event: 'session.refused', credential: 'refresh-token', reason },
        ])
      })
    }

    const ACCESS_TOKENS: [reason: string, tokenOf: (login: Login) => string][] = [
      ['malformed', () => CANARY],
      ['bad-signature', ({ accessToken }) => changed(accessToken)],
      ['wrong-type', ({ refreshToken }) => refreshToken],
    ]
    for (const [reason, tokenOf] of ACCESS_TOKENS) {
      test(`an access token is refused: ${reason}`, async () => {
        const token = tokenOf(await newLogin())
        await isRefused('access-token', reason, () => service.get('/session', bearer(token)))
      })
    }

    for (const [reason, prepare] of ENDED) {
      test(`every credential of a session is refused: ${reason}`, async () => {
        const login = await newLogin()
        await prepare(login)
        await isRefused('refresh-token', reason, () => service.refresh(login.refreshToken))
        const byToken = bearer(login.accessToken)
        await isRefused('access-token', reason, () => service.get('/session', byToken))
        const byCookie = cookie(login.cookie)
        const challenge = 'Bearer realm="login"'
        await isRefused('cookie', reason, () => service.get('/session', byCookie), challenge)
      })
    }

    test('a cookie is refused: unknown-session, cookie-idle', async () => {
      const login = await newLogin()
      const challenge = 'Bearer realm="login"'
      const get = (value: string) => () => service.get('/session', cookie(value))
      await isRefused('cookie', 'unknown-session', get('A'.repeat(43)), challenge)
      service.advance(31 * MINUTE_MS)
      await isRefused('cookie', 'cookie-idle', get(login.cookie), challenge)
    })

    test('a request without a credential gets a challenge, and is not logged', async () => {
      const lines = await loggedBy(service, async () => {
        for (const headers of [{}, { Authorization: `Basic ${CANARY}` }]) {
          const { status, headers: given } = await service.get('/session', headers)
          assert.deepEqual([status, given['www-authenticate']], [401, 'Bearer realm="login"'])
        }
      })
      assert.deepEqual(lines, [])
    })

    test('a rejected login gets the same challenge for a known and an unknown email', async () => {
      const email = await service.newUser()
      const challenges = [
        await service.login(email, 'wrong'),
        await service.login('absent@example.com', 'wrong'),
      ].map(({ headers }) => headers['www-authenticate'])
      assert.deepEqual(challenges, ['Bearer realm="login"', 'Bearer realm="login"'])
      assert.equal((await service.login(email, PASSWORD)).headers['www-authenticate'], undefined)
    })

    const CSRF: [reason: string, headersOf: (login: Login) => object][] = [
      ['csrf-no-token', login => ({ ...ownChange(login), 'X-CSRF-Token': undefined })],
      ['csrf-wrong-token', login => ({ ...ownChange(login), 'X-CSRF-Token': CANARY })],
      ['csrf-other-site', login => ({ ...ownChange(login), 'Sec-Fetch-Site': 'cross-site' })],
      ['csrf-no-site', login => ({ ...ownChange(login), 'Sec-Fetch-Site': undefined })],
      [
        'csrf-other-site',
        login => ({ ...ownChange(login), 'Sec-Fetch-Site': 'cross-site', Origin: UNLISTED }),
      ],
    ]
    for (const [reason, headersOf] of CSRF) {
      test(`a change by cookie is refused: ${reason}`, async () => {
        const login = await newLogin()
        const sent = Object.entries(headersOf(login)).filter(([, value]) => value !== undefined)
        for (const path of ['/refresh', '/logout']) {
          const lines = await refusedLines(service, async () => {
            const headers = Object.fromEntries(sent)
            const { status, text } = await service.call({ path: `${AUTH}${path}`, headers })
            assert.deepEqual([status, text], [403, CSRF_FAILED])
          })
          const { Origin: origin } = Object.fromEntries(sent)
          const line = { level: 'warn', event: 'request.refused', reason }
          assert.deepEqual(lines, [origin ? { ...line, origin } : line])
        }
      })
    }

    test('of two sessions that end all others at once, one is refused, and this is logged', async () => {
      for (let round = 0; round < 10; round++) {
        const email = await service.newUser()
        const logins = [await service.programLogin(email), await service.programLogin(email)]
        const lines = await loggedBy(service, async () => {
          const answers = await Promise.all(
            logins.map(({ accessToken }) => service.delete('/sessions', bearer(accessToken))),
          )
          const statuses = answers.map(({ status }) => status)
          assert.deepEqual(statuses.toSorted(), [200, 401])
        })
        const refused = lines.filter(({ event }) => event === 'session.refused')
        assert.deepEqual(
          refused.map(({ credential, reason }) => [credential, reason]),
          [['access-token', 'session-ended']],
        )
      }
    })

    test('the line of a login has its duration in whole milliseconds', async () => {
      const email = await service.newUser()
      const [line] = await loggedBy(service, () => service.login(email, PASSWORD))
      assert.equal(line?.event, 'login.succeeded')
      assert.ok(Number.isInteger(line?.durationMs) && Number(line?.durationMs) > 0)
    })
  })
}
