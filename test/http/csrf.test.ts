import assert from 'node:assert/strict'
import type { OutgoingHttpHeaders } from 'node:http'
import { after, before, describe, test } from 'node:test'
import { ENGINES_BY_RUN } from '../support/engines.ts'
import { countHashes } from '../support/hash-counter.ts'
import { type Call, createAddresses, loggedBy, PASSWORD } from '../support/service.ts'
import {
  AUTH,
  bearer,
  CSRF_FAILED,
  cookie,
  type Login,
  ownChange,
  type SessionService,
  startSessionService,
} from '../support/session-client.ts'

const LISTED = 'https://app.example.com'
const CHANGES: Call[] = [
  { method: 'POST', path: `${AUTH}/refresh` },
  { method: 'POST', path: `${AUTH}/logout` },
  { method: 'DELETE', path: `${AUTH}/sessions` },
  { method: 'DELETE', path: `${AUTH}/sessions/7d1ad5f1-5a8c-4e8c-9d1c-0a4b4f1f0e55` },
]

for (const engine of ENGINES_BY_RUN) {
  describe(`changes authenticated by the session cookie, on ${engine}`, () => {
    let service: SessionService
    let login: Login
    let other: Login
    before(async () => {
      service = await startSessionService(engine, { CORS_ORIGINS: LISTED })
      await service.addUser('kate@example.com')
      login = await service.browserLogin('kate@example.com')
      other = await service.browserLogin('kate@example.com')
    })
    after(async () => {
      await service.assertSecretsKept()
      await service.stop()
    })

    const refresh = (headers: OutgoingHttpHeaders) =>
      service.call({ path: `${AUTH}/refresh`, headers })

    const TOKENS: [string, () => string | string[] | undefined][] = [
      ['missing', () => undefined],
      ['empty', () => ''],
      ['one byte long', () => 'x'],
      ['a dot', () => '.'],
      ['14,000 characters long', () => 'x'.repeat(14_000)],
      ['14,000 dots', () => '.'.repeat(14_000)],
      ['the token of another session', () => other.csrf],
      ['only the nonce', () => login.csrf.split('.')[0]],
      ['the nonce with an empty proof', () => `${login.csrf.split('.')[0]}.`],
      ['only the proof', () => `.${login.csrf.split('.')[1]}`],
      ['changed in its nonce', () => changedAt(login.csrf, 0)],
      ['changed in its proof', () => changedAt(login.csrf, 30)],
      ['shortened', () => login.csrf.slice(0, -1)],
      ['lengthened', () => `${login.csrf}A`],
      ['followed by a third part', () => `${login.csrf}.`],
      ['sent twice', () => [login.csrf, login.csrf]],
      [
        'followed by a letter outside ASCII',
        () => Buffer.from(`${login.csrf}ä`).toString('latin1'),
      ],
    ]
    for (const [name, token] of TOKENS) {
      test(`a CSRF token that is ${name} is refused at every change`, async () => {
        const csrf = token()
        for (const change of CHANGES) {
          const { status, text, headers } = await service.call({
            ...change,
            headers: {
              ...cookie(login.cookie),
              'Sec-Fetch-Site': 'same-origin',
              ...(csrf !== undefined && { 'X-CSRF-Token': csrf }),
            },
          })
          assert.deepEqual([status, text], [403, CSRF_FAILED], change.path)
          assert.equal(headers['set-cookie'], undefined)
        }
      })
    }

    const PAGES: [string, OutgoingHttpHeaders, status: number][] = [
      ['this site', { 'Sec-Fetch-Site': 'same-origin' }, 200],
      ['this site with Origin: null', { 'Sec-Fetch-Site': 'same-origin', Origin: 'null' }, 200],
      ['a listed site', { 'Sec-Fetch-Site': 'same-site', Origin: LISTED }, 200],
      ['a listed site of another domain', { 'Sec-Fetch-Site': 'cross-site', Origin: LISTED }, 200],
      ['a listed site in a browser without Sec-Fetch-Site', { Origin: LISTED }, 200],
      ['another site', { 'Sec-Fetch-Site': 'cross-site' }, 403],
      ['an unlisted origin of the same site', { 'Sec-Fetch-Site': 'same-site' }, 403],
      ['the address bar', { 'Sec-Fetch-Site': 'none' }, 403],
      ['a caller that sends neither header', {}, 403],
      ['an unlisted origin', { Origin: 'https://evil.example' }, 403],
      ['an origin that starts like a listed one', { Origin: `${LISTED}.evil.example` }, 403],
      ['a page with Origin: null', { Origin: 'null' }, 403],
      ['two origins in one header', { Origin: `${LISTED}, https://evil.example` }, 403],
      ['an unlisted local page', { Origin: 'http://localhost:3000' }, 403],
      ['Sec-Fetch-Site in capitals', { 'Sec-Fetch-Site': 'SAME-ORIGIN' }, 403],
    ]
    for (const [name, headers, status] of PAGES) {
      test(`a change with the right token from ${name} is answered ${status}`, async () => {
        const own = { ...cookie(login.cookie), 'X-CSRF-Token': login.csrf }
        const answer = await refresh({ ...own, ...headers })
        assert.equal(answer.status, status)
        if (status === 403) assert.equal(answer.text, CSRF_FAILED)
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
      const headers = { ...cookie(login.cookie), 'Sec-Fetch-Site': 'cross-site' }
      const byBearer = { ...headers, ...bearer(login.accessToken) }
      const { sessionId } = await service.programLogin('kate@example.com')
      assert.equal((await service.delete(`/sessions/${sessionId}`, byBearer)).status, 200)
      const { refreshToken } = login
      const refreshed = await service.call({
        path: `${AUTH}/refresh`,
        headers,
        body: { refreshToken },
      })
      assert.equal(refreshed.status, 200)
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

describe('a login from a page of another site', () => {
  /** The headers, the status with CORS_ORIGINS set, and the status in development without it. */
  const PAGES: [string, OutgoingHttpHeaders, listed: number, development: number][] = [
    ['our own page', { 'Sec-Fetch-Site': 'same-origin', Origin: 'https://x' }, 200, 200],
    ['the address bar', { 'Sec-Fetch-Site': 'none' }, 200, 200],
    ['a program', {}, 200, 200],
    ['a program that names an origin', { Origin: 'https://evil.example' }, 200, 200],
    ['a listed page', { 'Sec-Fetch-Site': 'cross-site', Origin: LISTED }, 200, 403],
    [
      'a listed origin of the same site',
      { 'Sec-Fetch-Site': 'same-site', Origin: LISTED },
      200,
      403,
    ],
    [
      'a page of this machine',
      { 'Sec-Fetch-Site': 'cross-site', Origin: 'http://localhost:3000' },
      403,
      200,
    ],
    ['another site', { 'Sec-Fetch-Site': 'cross-site', Origin: 'https://evil.example' }, 403, 403],
    [
      'an unlisted origin of the same site',
      { 'Sec-Fetch-Site': 'same-site', Origin: 'https://x.app' },
      403,
      403,
    ],
    [
      'an origin that starts like a listed one',
      { 'Sec-Fetch-Site': 'cross-site', Origin: `${LISTED}.evil.app` },
      403,
      403,
    ],
    ['a page with Origin: null', { 'Sec-Fetch-Site': 'cross-site', Origin: 'null' }, 403, 403],
    ['another site without an origin', { 'Sec-Fetch-Site': 'cross-site' }, 403, 403],
    ['an unknown Sec-Fetch-Site', { 'Sec-Fetch-Site': 'x', Origin: 'null' }, 403, 403],
  ]
  const MODES = [
    ['with a list', { CORS_ORIGINS: LISTED }, 2],
    ['in development', {}, 3],
  ] as const
  for (const [mode, env, column] of MODES) {
    test(`${mode} is refused without a hash or a count, unless its origin is allowed`, async t => {
      const service = await startSessionService('sqlite', env, createAddresses())
      t.after(service.stop)
      await service.addUser('kate@example.com')
      for (const [name, headers, ...statuses] of PAGES) {
        const status = statuses[column - 2]
        const before = await service.database.rows('select * from login_throttle')
        for (const password of [PASSWORD, 'wrong']) {
          if (status === 200 && password === 'wrong') continue
          const body = { email: 'kate@example.com', password }
          let hashes = 0
          const lines = await loggedBy(service, async () => {
            hashes = await countHashes(async () => {
              const answer = await service.call({ headers, body })
              assert.equal(answer.status, status, name)
              if (status !== 403) return
              assert.equal(answer.text, CSRF_FAILED)
              assert.equal(answer.headers['set-cookie'], undefined)
            })
          })
          assert.equal(hashes, status === 403 ? 0 : 1, name)
          if (status !== 403) continue
          const origin = headers.Origin ? { origin: headers.Origin } : {}
          assert.deepEqual(
            lines.map(({ event, reason, origin }) => ({
              event,
              reason,
              ...(origin ? { origin } : {}),
            })),
            [{ event: 'request.refused', reason: 'csrf-other-site', ...origin }],
          )
          assert.deepEqual(await service.database.rows('select * from login_throttle'), before)
        }
      }
      const big = await service.call({
        headers: { 'Sec-Fetch-Site': 'cross-site' },
        body: { email: 'x'.repeat(17_000) },
      })
      assert.equal(big.status, 403, 'the body is not read')
    })
  }
})
