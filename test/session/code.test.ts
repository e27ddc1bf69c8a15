// One-time codes, by which applications of other sites log in.
import assert from 'node:assert/strict'
import { hash } from 'node:crypto'
import { describe, test } from 'node:test'
import { digestOf, randomToken } from '../../src/system/identifiers.ts'
import { byEmail, changeAt } from '../storage/fixtures.ts'
import { ENGINES_BY_RUN } from '../support/engines.ts'
import { inParallel } from '../support/own.ts'
import { countStatuses, createAddresses, loggedBy, PASSWORD } from '../support/service.ts'
import {
  AUTH,
  bearer,
  cookie,
  endedBy,
  INVALID_TOKEN,
  type Login,
  MINUTE_MS,
  ownSessions,
  SECOND_MS,
} from '../support/session-client.ts'
import { NAVIGATION, noticeIn, refreshIn } from '../support/visitor.ts'

const ORIGIN = 'https://app.example.net'
const CALLBACK = `${ORIGIN}/logged-in`
const OTHER_CALLBACK = 'https://other.example.org/'
const PARALLEL = 100
const CODES_PER_MINUTE = 60

const challengeOf = (verifier: string) => hash('sha256', verifier, 'base64url')

for (const engine of ENGINES_BY_RUN) {
  describe(`a login code on ${engine}`, async () => {
    const env = {
      CODE_CALLBACKS: `${CALLBACK},${OTHER_CALLBACK}`,
      RETURN_TO_ORIGINS: 'https://app.example.com',
      CORS_ORIGINS: 'https://app.example.com',
      MAX_SESSIONS_PER_USER: '3',
    }
    let beforeRedeeming: () => Promise<unknown> = async () => {}
    const service = await ownSessions(engine, env, createAddresses(), store => ({
      ...store,
      codes: {
        ...store.codes,
        redeem: (...given) => beforeRedeeming().then(() => store.codes.redeem(...given)),
      },
    }))

    /** Opens the page as a user that is logged in. */
    const issue = (login: Login, query: Record<string, string>) =>
      service.call({
        method: 'GET',
        path: `/login?${new URLSearchParams(query)}`,
        headers: { ...cookie(login.cookie), ...NAVIGATION, Accept: 'text/html' },
      })
    const redeem = (code: unknown, verifier: unknown, headers = {}) =>
      service.call({ path: `${AUTH}/code`, body: { code, verifier }, headers })
    async function assertRefused(reason: string, ...parameters: Parameters<typeof redeem>) {
      const lines = await loggedBy(service, async () => {
        const { status, text, headers } = await redeem(...parameters)
        assert.deepEqual([status, text], [401, INVALID_TOKEN], String(parameters))
        assert.match(String(headers['www-authenticate']), /error="invalid_token"/)
      })
      const refused = lines.filter(({ event }) => event === 'code.refused')
      assert.partialDeepStrictEqual(refused, [{ reason }], String(parameters))
      assert.equal(refused.length, 1)
    }

    /** A user that is logged in at the page, and a code of that session. */
    async function newCode(returnTo = CALLBACK) {
      const email = await service.newUser()
      const login = await service.browserLogin(email)
      return { email, login, ...(await codeOf(login, returnTo)) }
    }
    async function codeOf(login: Login, returnTo = CALLBACK) {
      const verifier = randomToken()
      const challenge = challengeOf(verifier)
      const location = refreshIn(await issue(login, { return_to: returnTo, challenge })) ?? ''
      return { verifier, location, code: new URL(location).searchParams.get('code') ?? '' }
    }
    const sessionsOf = async (accessToken: string) =>
      (await service.get('/sessions', bearer(accessToken))).json.data.sessions

    test('opens a session of its own, which is listed, refreshed and ended like others', async () => {
      const { login, code, verifier, location } = await newCode(`${CALLBACK}?order=1&page=2`)
      assert.equal(location, `${CALLBACK}?order=1&page=2&code=${code}`)
      const lines = await loggedBy(service, async () => {
        const { status, headers, json } = await redeem(code, verifier, {
          'User-Agent': 'the application',
          'Sec-Fetch-Site': 'cross-site',
          Origin: ORIGIN,
          Cookie: `__Host-session=${login.cookie}`,
        })
        assert.equal(status, 200)
        assert.equal(headers['set-cookie'], undefined)
        assert.equal(headers['x-csrf-token'], undefined)
        assert.equal(headers['access-control-allow-origin'], ORIGIN)
        assert.equal(headers['access-control-allow-credentials'], undefined)
        const { user, accessToken, refreshToken, expiresIn } = json.data
        assert.deepEqual([user, expiresIn], [login.answer.json.data.user, 3600])

        const listed = await sessionsOf(accessToken)
        const own = listed.find(({ current }) => current)
        const page = listed.find(({ id }) => id === login.sessionId)
        assert.equal(listed.length, 2)
        assert.equal(own?.userAgent, 'the application')
        assert.equal(own?.expiresAt, page?.expiresAt)
        // The session of the page goes on, and is not ended with that of the application.
        const next = (await service.refresh(refreshToken)).json.data.refreshToken
        assert.equal((await service.logout(next)).status, 200)
        assert.equal((await service.get('/session', bearer(accessToken))).status, 401)
        assert.equal((await service.get('/session', cookie(login.cookie))).status, 200)
      })
      const [redeemed] = lines
      assert.equal(redeemed?.event, 'code.redeemed')
      assert.equal(redeemed?.userId, login.userId)
    })

    test('is not a login: the last login and the failures stay as they are', async () => {
      const email = await service.newUser()
      await service.browserLogin(email)
      await service.login(email, 'wrong')
      const login = await service.browserLogin(email)
      await service.login(email, 'wrong')
      const { code, verifier } = await codeOf(login)
      const before = await service.store.users.findByEmail(email)
      const { accessToken } = (await redeem(code, verifier)).json.data
      assert.deepEqual(await service.store.users.findByEmail(email), before)
      const told = async (headers: object) =>
        (await service.get('/session', { ...headers })).json.data.session.lastLogin
      assert.equal((await told(bearer(accessToken)))?.failuresSince, 1)
      assert.deepEqual(await told(bearer(accessToken)), await told(cookie(login.cookie)))
    })

    test(`of ${PARALLEL} redemptions at once one opens a session`, async () => {
      const { login, code, verifier } = await newCode()
      const lines = await loggedBy(service, async () => {
        const answers = await inParallel(PARALLEL, () => redeem(code, verifier))
        assert.deepEqual(countStatuses(answers), { 200: 1, 401: PARALLEL - 1 })
      })
      assert.equal((await sessionsOf(login.accessToken)).length, 2)
      const faults = lines.filter(({ err }) => err !== undefined)
      assert.deepEqual(faults, [])
    })

    test('a wrong verifier, a code of other form and a used code are 401 and change nothing', async () => {
      const { login, code, verifier } = await newCode()
      const wrong: Record<string, [unknown, unknown][]> = {
        'wrong-verifier': [
          [code, randomToken()],
          [code, challengeOf(verifier)],
        ],
        'unknown-code': [
          [randomToken(), verifier],
          [code.toLowerCase(), verifier],
          [login.cookie, verifier],
        ],
        malformed: [
          ...[verifier.slice(0, 42), verifier.repeat(3), `${verifier.slice(0, 42)}é`],
          ...[`${verifier} `, '', 'x'.repeat(15_000)],
        ].map(given => [code, given]),
      }
      const otherForms = [digestOf(code), `${code}=`, '', '\u0000', login.refreshToken]
      wrong.malformed?.push(...otherForms.map((given): [unknown, unknown] => [given, verifier]))
      for (const [reason, cases] of Object.entries(wrong)) {
        for (const [one, other] of cases) await assertRefused(reason, one, other)
      }
      assert.equal((await sessionsOf(login.accessToken)).length, 1)
      assert.equal((await redeem(code, verifier)).status, 200)
      await assertRefused('unknown-code', code, verifier)
      assert.equal((await sessionsOf(login.accessToken)).length, 2)
    })

    test('a body without its fields is 400', async () => {
      const { json } = await service.call({ path: `${AUTH}/code`, body: { code: 7 } })
      assert.deepEqual(json.error, {
        code: 'VALIDATION_ERROR',
        message: 'Code and verifier are required',
        fields: ['code', 'verifier'],
      })
    })

    test('a script redeems it in the origin of its callback only', async () => {
      const { code, verifier } = await newCode()
      for (const origin of [
        ...['https://other.example.org', 'https://app.example.com', 'null', ''],
        ...[`${ORIGIN}/`, `${ORIGIN}.`, `${ORIGIN}:443`, 'http://app.example.net', service.url],
        'https://APP.example.net',
      ]) {
        await assertRefused('wrong-origin', code, verifier, { Origin: origin })
      }
      assert.equal((await redeem(code, verifier, { Origin: ORIGIN })).status, 200)
    })

    test('is valid for 60 seconds, but not if it ends in more than two minutes', async t => {
      service.stopClock(t)
      const { login, code, verifier } = await newCode()
      service.advance(59 * SECOND_MS)
      const late = await codeOf(login)
      assert.equal((await redeem(code, verifier)).status, 200)
      // The clock of PostgreSQL is known to the millisecond.
      service.advance(60 * SECOND_MS + 5)
      await assertRefused('code-expired', late.code, late.verifier)
      const early = await codeOf(login)
      service.advance(-61 * SECOND_MS)
      await assertRefused('code-expired', early.code, early.verifier)
      service.advance(2 * SECOND_MS)
      assert.equal((await redeem(early.code, early.verifier)).status, 200)
      service.advance(59 * SECOND_MS)
    })

    const NEW_PASSWORD = 'seven green boats at noon'
    const changePassword = (email: string) => {
      const body = { email, currentPassword: PASSWORD, newPassword: NEW_PASSWORD }
      return service.call({ path: `${AUTH}/password`, body })
    }

    test('a change of the password at the same moment leaves one session', async () => {
      for (let round = 0; round < 10; round++) {
        const { email, code, verifier, login } = await newCode()
        const [changed, redeemed] = await Promise.all([
          changePassword(email),
          redeem(code, verifier),
        ])
        assert.equal(changed.status, 200)
        assert.ok([200, 401].includes(redeemed.status))
        const live = await service.database.rows(
          `select id from sessions where user_id = '${login.userId}' and ended_at is null`,
        )
        assert.equal(live.length, 1)
      }
    })

    // test/session/ended-feed.test.ts has all ways to end a session.
    test('the end of the session of its page makes it invalid, also while it is redeemed', async () => {
      for (const reason of ['session-ended', 'changed-meanwhile']) {
        const { login, code, verifier } = await newCode()
        const end = () => service.store.sessions.end(login.sessionId, service.now())
        if (reason === 'changed-meanwhile') beforeRedeeming = end
        else await end()
        await assertRefused(reason, code, verifier)
        assert.equal(await service.store.sessions.countLive(login.userId, service.now()), 0)
      }
      beforeRedeeming = async () => {}
    })

    test('a lock of the throttle does not stop it', async () => {
      const { email, code, verifier } = await newCode()
      for (let i = 0; i < 6; i++) await service.login(email, 'wrong', '127.0.0.1')
      assert.equal((await service.login(email, PASSWORD, '127.0.0.1')).status, 429)
      assert.equal((await redeem(code, verifier)).status, 200)
    })

    test('beyond the limit of sessions, the least recently used one ends', async () => {
      const { email, login, code, verifier } = await newCode()
      service.advance(SECOND_MS)
      await service.programLogin(email)
      await service.programLogin(email)
      service.advance(SECOND_MS)
      const ended = await endedBy(service, async () => {
        assert.equal((await redeem(code, verifier)).status, 200)
      })
      assert.deepEqual(ended, [['limit', login.sessionId, login.userId]])
    })

    test('is not issued without a session, or for other addresses and challenges', async () => {
      const login = await service.browserLogin(await service.newUser())
      const challenge = challengeOf('x')
      const lines = await loggedBy(service, async () => {
        for (const [returnTo, given, holder = login] of [
          [CALLBACK, challenge, { ...login, cookie: randomToken() }],
          ['https://app.example.com/', challenge],
          [`${ORIGIN}/`, challenge],
          [`${CALLBACK}?code=x`, challenge],
          [CALLBACK, `${challenge}=`],
          [CALLBACK, ''],
          [CALLBACK, undefined],
        ] as const) {
          const query = { return_to: returnTo, ...(given !== undefined && { challenge: given }) }
          assert.equal(refreshIn(await issue(holder, query)), undefined)
        }
      })
      assert.ok(lines.every(({ event }) => event !== 'code.issued'))
      const issued = await loggedBy(service, () => codeOf(login))
      const { sessionId, userId } = login
      const expected = { event: 'code.issued', sessionId, userId, callback: CALLBACK }
      assert.partialDeepStrictEqual(issued.at(-1), expected)
    })

    test('a session gets as many in a minute as it may be refreshed, and then a 429', async () => {
      const login = await service.browserLogin(await service.newUser())
      const query = { return_to: CALLBACK, challenge: challengeOf('x') }
      for (let i = 0; i < CODES_PER_MINUTE; i++) await issue(login, query)
      const answer = await issue(login, query)
      assert.equal(answer.status, 429)
      assert.match(noticeIn(answer) ?? '', /^The service is busy/)
      assert.ok(Number(answer.headers['retry-after']) <= 60)
    })

    test('only its digest is stored, a purge removes it, and the deletion of its user too', async () => {
      const { login, code } = await newCode()
      const stored = () => service.database.rows('select digest, session_id from login_codes')
      const rows = await stored()
      const row = rows.find(({ digest }) => digest === digestOf(code))
      assert.equal(row?.session_id, login.sessionId)
      service.advance(MINUTE_MS)
      const purged = await service.store.maintenance.purge(service.now())
      assert.ok((purged?.codes ?? 0) > 0)
      assert.deepEqual(await stored(), [])
      const { email } = await newCode()
      await byEmail(service.store).delete(email, changeAt(service.now()))
      assert.deepEqual(await stored(), [])
    })

    test('a redemption that fails at the end leaves the code valid', async () => {
      const { code, verifier, login } = await newCode()
      await service.database.rows('alter table refresh_tokens rename to gone')
      assert.equal((await redeem(code, verifier)).status, 500)
      await service.database.rows('alter table gone rename to refresh_tokens')
      const opened = `select id from sessions where user_id = '${login.userId}'`
      assert.equal((await service.database.rows(opened)).length, 1)
      assert.equal((await redeem(code, verifier)).status, 200)
    })
  })
}
