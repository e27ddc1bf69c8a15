// Every refusal, also that of a change by cookie without its own origin and CSRF token, is logged in one line with its
// reason and without secrets; repeated ones are counted. The answer is the same for all reasons.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import type { OutgoingHttpHeaders } from 'node:http'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { loadKeySet } from '../../src/keys/key-file.ts'
import { ENGINES_BY_RUN } from '../support/engines.ts'
import { countHashes } from '../support/hash-counter.ts'
import { inParallel, own } from '../support/own.ts'
import {
  type Call,
  countStatuses,
  createAddresses,
  LOGIN,
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
  resigned,
  type SessionService,
  startSessionService,
} from '../support/session-client.ts'

const LISTED = 'https://app.example.com'
const UNLISTED = 'https://evil.example'
const CANARY = 'c4n4ry'
const CHALLENGE = 'Bearer realm="login"'
const INVALID = `${CHALLENGE}, error="invalid_token"`

const SAME = { 'Sec-Fetch-Site': 'same-site' }
const CROSS = { 'Sec-Fetch-Site': 'cross-site' }
const OWN = { 'Sec-Fetch-Site': 'same-origin' }

const FOREIGN: [page: string, OutgoingHttpHeaders][] = [
  ['another site', CROSS],
  ['another site with an origin', { ...CROSS, Origin: UNLISTED }],
  ['the same site without an origin', SAME],
  ['an unlisted origin of the same site', { ...SAME, Origin: 'https://x.app' }],
  ['an origin like a listed one', { ...CROSS, Origin: `${LISTED}.evil.example` }],
  ['two origins in one header', { ...CROSS, Origin: `${LISTED}, ${UNLISTED}` }],
  ['a page with Origin: null', { ...CROSS, Origin: 'null' }],
  ['Sec-Fetch-Site in capitals', { 'Sec-Fetch-Site': 'SAME-ORIGIN' }],
  ['an unknown Sec-Fetch-Site', { 'Sec-Fetch-Site': 'x', Origin: 'null' }],
]

type Mode = 'listed' | 'development'
/** Refused are changes, unless they are allowed with CORS_ORIGINS set, and logins in these modes. */
type Page = [string, OutgoingHttpHeaders, change: 'made' | 'refused', ...refusedLogins: Mode[]]
const PAGES: Page[] = [
  ['this site', OWN, 'made'],
  ['this site with another origin', { ...OWN, Origin: 'https://x' }, 'made'],
  ['this site with Origin: null', { ...OWN, Origin: 'null' }, 'made'],
  ['the address bar', { 'Sec-Fetch-Site': 'none' }, 'refused'],
  ['a caller that sends neither header', {}, 'refused'],
  ['a caller that names an unlisted origin', { Origin: UNLISTED }, 'refused'],
  ['a listed site in a browser without Sec-Fetch-Site', { Origin: LISTED }, 'made'],
  ['a listed site', { ...SAME, Origin: LISTED }, 'made', 'development'],
  ['a listed site of another domain', { ...CROSS, Origin: LISTED }, 'made', 'development'],
  ['an unlisted local page', { ...CROSS, Origin: 'http://localhost:3000' }, 'refused', 'listed'],
  ...FOREIGN.map(([page, headers]): Page => [page, headers, 'refused', 'listed', 'development']),
]
const CHANGES: Call[] = [
  { method: 'POST', path: `${AUTH}/refresh` },
  { method: 'POST', path: `${AUTH}/logout` },
  { method: 'DELETE', path: `${AUTH}/sessions` },
  { method: 'DELETE', path: `${AUTH}/sessions/7d1ad5f1-5a8c-4e8c-9d1c-0a4b4f1f0e55` },
]

/** Fails unless the call is refused, without a cookie, in one line with this reason and the origin of the call. */
async function assertRefused(service: SessionService, reason: string, call: Call): Promise<void> {
  const lines = await refusedLines(service, async () => {
    const { status, text, headers } = await service.call(call)
    assert.deepEqual([status, text], [403, CSRF_FAILED], call.path)
    assert.equal(headers['set-cookie'], undefined)
  })
  const { Origin: origin } = call.headers ?? {}
  const line = { level: 'warn', event: 'request.refused', reason }
  assert.deepEqual(lines, [origin === undefined ? line : { ...line, origin }])
}

for (const engine of ENGINES_BY_RUN) {
  describe(`refusals on ${engine}`, async () => {
    const env = { CORS_ORIGINS: LISTED, RETURN_TO_ORIGINS: LISTED }
    const service = await own(startSessionService(engine, env, createAddresses()))
    await service.addUser('kate@example.com')
    const login = await service.browserLogin('kate@example.com')
    const other = await service.browserLogin('kate@example.com')
    const [nonce = '', proof = ''] = login.csrf.split('.')

    const refresh = (headers: OutgoingHttpHeaders) =>
      service.call({ path: `${AUTH}/refresh`, headers })

    const TOKENS: [string, token: string | string[] | undefined][] = [
      ['missing', undefined],
      ['empty', ''],
      ['one byte long', 'x'],
      ['a dot', '.'],
      ['14,000 characters long', 'x'.repeat(14_000)],
      ['14,000 dots', '.'.repeat(14_000)],
      ['the token of another session', other.csrf],
      ['only the nonce', nonce],
      ['the nonce with an empty proof', `${nonce}.`],
      ['only the proof', `.${proof}`],
      ['changed in its nonce', changedAt(login.csrf, 0)],
      ['changed in its proof', changedAt(login.csrf, 30)],
      ['shortened', login.csrf.slice(0, -1)],
      ['lengthened', `${login.csrf}A`],
      ['followed by a third part', `${login.csrf}.`],
      ['sent twice', [login.csrf, login.csrf]],
      ['followed by a letter outside ASCII', Buffer.from(`${login.csrf}ä`).toString('latin1')],
    ]
    for (const [name, csrf] of TOKENS) {
      test(`a CSRF token that is ${name} is refused at every change`, async () => {
        const reason = csrf === undefined ? 'csrf-no-token' : 'csrf-wrong-token'
        const sent = { ...cookie(login.cookie), ...OWN }
        const headers = { ...sent, ...(csrf !== undefined && { 'X-CSRF-Token': csrf }) }
        for (const change of CHANGES) await assertRefused(service, reason, { ...change, headers })
      })
    }

    const credentials = { ...cookie(login.cookie), 'X-CSRF-Token': login.csrf }
    for (const [page, headers, change] of PAGES) {
      test(`a change with the right token from ${page} is ${change}`, async () => {
        const sent = { ...credentials, ...headers }
        if (change === 'made') return assert.equal((await refresh(sent)).status, 200)
        const reason = Object.keys(headers).length > 0 ? 'csrf-other-site' : 'csrf-no-site'
        for (const path of ['/refresh', '/logout']) {
          await assertRefused(service, reason, { path: `${AUTH}${path}`, headers: sent })
        }
      })
    }

    test('GET /session gives a new CSRF token each time; all stay valid, and listed origins can read them', async () => {
      const tokens = new Set([login.csrf])
      for (let i = 0; i < 3; i++) {
        const { headers } = await service.get('/session', cookie(login.cookie))
        tokens.add(String(headers['x-csrf-token']))
      }
      assert.equal(tokens.size, 4)
      for (const csrf of tokens) {
        assert.equal((await refresh(ownChange({ ...login, csrf }))).status, 200)
      }
      const listed = await service.get('/session', { ...cookie(login.cookie), Origin: LISTED })
      assert.match(String(listed.headers['access-control-expose-headers']), /X-CSRF-Token/)
    })

    test('a request with an access token or a refresh token needs no CSRF token', async () => {
      const { refreshToken, accessToken } = login
      const headers = { ...cookie(login.cookie), ...CROSS }
      const byBearer = { ...headers, ...bearer(accessToken) }
      const { sessionId } = await service.programLogin('kate@example.com')
      assert.equal((await service.delete(`/sessions/${sessionId}`, byBearer)).status, 200)
      const call = { path: `${AUTH}/refresh`, headers, body: { refreshToken } }
      assert.equal((await service.call(call)).status, 200)
    })

    test('no refused change has ended a session', async () => {
      for (const { cookie: value } of [login, other]) {
        assert.equal((await service.get('/session', cookie(value))).status, 200)
      }
    })

    const keys = await loadKeySet(join(service.dataDir, 'signing-keys.json'))
    const [accessKey, refreshKey] = [keys.accessKeys[0], keys.refreshKeys[0]]
    const [encryptionKey] = keys.encryptionKeys
    assert.ok(accessKey && refreshKey && encryptionKey)

    const newLogin = async () => service.browserLogin(await service.newUser())
    const onUser = ({ userId }: Login, change: string) =>
      service.database.rows(`update users set ${change} where id = '${userId}'`)
    const onSession = ({ sessionId }: Login, change: string) =>
      service.database.rows(`update sessions set ${change} where id = '${sessionId}'`)
    const signed = ({ refreshToken }: Login, header: object, claims: object = {}) =>
      resigned(refreshToken, refreshKey.signingKey, header, claims)
    const ofStranger = (token: string) =>
      resigned(token, accessKey.signingKey, {}, { sub: randomUUID() })
    const byEncryptionKey = (token: string) =>
      resigned(token, encryptionKey.secretKey, { alg: 'HS256', kid: encryptionKey.keyId })
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
      ['refresh-token', 'unknown-key', ({ refreshToken }) => byEncryptionKey(refreshToken)],
      ['refresh-token', 'wrong-issuer', it => signed(it, {}, { iss: `https://${CANARY}.net` })],
      ['access-token', 'malformed', () => CANARY],
      ['access-token', 'bad-signature', ({ accessToken }) => changed(accessToken)],
      ['access-token', 'unknown-key', ({ accessToken }) => byEncryptionKey(accessToken)],
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
      const CASES: [returnTo: string | string[], origin: string | null | undefined][] = [
        [[UNLISTED, LISTED], undefined],
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
      for (const [returnTo, origin] of CASES) {
        const sent = [returnTo].flat().map(it => `return_to=${encodeURIComponent(it)}`)
        const query = sent.join('&')
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
      const email = `${'\u0001'.repeat(200)}@x.example`
      const headers = { 'User-Agent': '\u0080'.repeat(300) }
      const CALLERS: [event: string, from: string, body: object][] = [
        ['request.refused', '127.0.0.2', { email }],
        ['login.throttled', '127.0.0.3', { email, password: 'x' }],
      ]
      const TIMES = 200
      await inParallel(5, () => service.login(email, 'x', '127.0.0.3'))
      await service.assertSecretsKept()
      const before = service.logged().length
      for (const [, from, body] of CALLERS) {
        for (let i = 0; i < TIMES; i++) await service.call({ from, headers, body })
      }
      await service.stop()
      const lines = service.logged().slice(before)
      assert.ok(!service.logText().includes(CANARY))
      for (const [event, from] of CALLERS) {
        const told = lines.filter(({ ip }) => ip === from)
        for (const [i, line] of told.entries()) {
          // After a second without a request, the next line is a first one again.
          const isFirst = !('count' in line)
          const email = isFirst && event === 'login.throttled'
          const found = [line.event, 'userAgent' in line, 'email' in line]
          assert.deepEqual(found, [event, isFirst, email])
          assert.ok(JSON.stringify(line).length < (isFirst ? 1_450 : 250))
          // Counts are a second apart, however slow the machine is; only the end of the service writes the last one at once.
          const later = told.slice(0, -1)[i + 2]
          const apartMs = later
            ? Date.parse(String(later.time)) - Date.parse(String(line.time))
            : Infinity
          assert.ok(apartMs > 990, `${apartMs} ms`)
        }
        const sum = told.reduce((sum, { count = 1 }) => sum + Number(count), 0)
        assert.equal(sum, TIMES)
      }
    })
  })
}

function changedAt(token: string, index: number): string {
  const letter = token[index] === 'A' ? 'B' : 'A'
  return `${token.slice(0, index)}${letter}${token.slice(index + 1)}`
}

for (const mode of ['listed', 'development'] as const) {
  test(`a login is refused without a hash or a count, unless its origin is allowed: ${mode}`, async () => {
    const env: Record<string, string> = mode === 'listed' ? { CORS_ORIGINS: LISTED } : {}
    const service = await own(startSessionService('sqlite', env, createAddresses()))
    const email = await service.newUser()
    for (const [page, headers, , ...refusedIn] of PAGES) {
      if (!refusedIn.includes(mode)) {
        const call = { headers, body: { email, password: PASSWORD } }
        const accepted = async () => assert.equal((await service.call(call)).status, 200, page)
        assert.equal(await countHashes(accepted), 1)
        continue
      }
      const counts = () => service.database.rows('select * from login_throttle')
      const before = await counts()
      for (const password of [PASSWORD, 'wrong']) {
        const call = { path: LOGIN, headers, body: { email, password } }
        const refused = () => assertRefused(service, 'csrf-other-site', call)
        assert.equal(await countHashes(refused), 0, page)
      }
      assert.deepEqual(await counts(), before)
    }

    const body = { email: 'x'.repeat(17_000) }
    assert.equal((await service.call({ headers: CROSS, body })).status, 403, 'it is not read')
  })
}
