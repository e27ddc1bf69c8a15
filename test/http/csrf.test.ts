import assert from 'node:assert/strict'
import type { OutgoingHttpHeaders } from 'node:http'
import { describe, test } from 'node:test'
import { ENGINES_BY_RUN } from '../support/engines.ts'
import { countHashes } from '../support/hash-counter.ts'
import { own } from '../support/own.ts'
import { type Call, createAddresses, LOGIN, PASSWORD, refusedLines } from '../support/service.ts'
import {
  AUTH,
  bearer,
  CSRF_FAILED,
  cookie,
  ownChange,
  ownSessions,
  type SessionService,
  startSessionService,
} from '../support/session-client.ts'

const LISTED = 'https://app.example.com'
const UNLISTED = 'https://evil.example'
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
type Page = [
  page: string,
  OutgoingHttpHeaders,
  change: 'made' | 'refused',
  ...refusedLogins: Mode[],
]
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
  describe(`changes authenticated by the session cookie, on ${engine}`, async () => {
    const env = { CORS_ORIGINS: LISTED }
    const service = await ownSessions(engine, env, createAddresses())
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
