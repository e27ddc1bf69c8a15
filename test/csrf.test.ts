import assert from 'node:assert/strict'
import type { OutgoingHttpHeaders } from 'node:http'
import { after, before, describe, test } from 'node:test'
import { ENGINES } from './engines.ts'
import { type Call, createAddresses, loggedBy, PASSWORD } from './service.ts'
import {
  AUTH,
  bearer,
  CSRF_FAILED,
  cookie,
  type Login,
  ownChange,
  type SessionService,
  startSessionService,
} from './session-client.ts'

const LISTED = 'https://app.example.com'
const CHANGES: Call[] = [
  { method: 'POST', path: `${AUTH}/refresh` },
  { method: 'POST', path: `${AUTH}/logout` },
  { method: 'DELETE', path: `${AUTH}/sessions` },
  { method: 'DELETE', path: `${AUTH}/sessions/7d1ad5f1-5a8c-4e8c-9d1c-0a4b4f1f0e55` },
]

for (const engine of ENGINES) {
  describe(`changes that live on the session cookie, on ${engine}`, () => {
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
      ['no token', () => undefined],
      ['an empty one', () => ''],
      ['one byte', () => 'x'],
      ['a dot', () => '.'],
      ['as long as headers may be', () => 'x'.repeat(14_000)],
      ['of as many parts', () => '.'.repeat(14_000)],
      ['that of another session', () => other.csrf],
      ['its nonce alone', () => login.csrf.split('.')[0]],
      ['its nonce with nothing', () => `${login.csrf.split('.')[0]}.`],
      ['its proof alone', () => `.${login.csrf.split('.')[1]}`],
      ['changed at the start', () => changedAt(login.csrf, 0)],
      ['changed in its proof', () => changedAt(login.csrf, 30)],
      ['shortened', () => login.csrf.slice(0, -1)],
      ['lengthened', () => `${login.csrf}A`],
      ['with a third part', () => `${login.csrf}.`],
      ['twice', () => [login.csrf, login.csrf]],
      ['with other letters', () => Buffer.from(`${login.csrf}ä`).toString('latin1')],
    ]
    for (const [name, token] of TOKENS) {
      test(`a token that is ${name} is refused at every change`, async () => {
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

    test('a token that no header can hold is refused with the headers', async () => {
      const { status } = await refresh({ ...ownChange(login), 'X-CSRF-Token': 'x'.repeat(1 << 20) })
      assert.equal(status, 431)
    })

    const PAGES: [string, OutgoingHttpHeaders, status: number][] = [
      ['this site', { 'Sec-Fetch-Site': 'same-origin' }, 200],
      ['this site, with its origin', { 'Sec-Fetch-Site': 'same-origin', Origin: 'null' }, 200],
      ['a listed site', { 'Sec-Fetch-Site': 'same-site', Origin: LISTED }, 200],
      ['a listed site of another domain', { 'Sec-Fetch-Site': 'cross-site', Origin: LISTED }, 200],
      ['a listed site, by an older browser', { Origin: LISTED }, 200],
      ['another site', { 'Sec-Fetch-Site': 'cross-site' }, 403],
      ['a neighbour', { 'Sec-Fetch-Site': 'same-site' }, 403],
      ['no page', { 'Sec-Fetch-Site': 'none' }, 403],
      ['nowhere', {}, 403],
      ['an unlisted site', { Origin: 'https://evil.example' }, 403],
      ['a look-alike', { Origin: `${LISTED}.evil.example` }, 403],
      ['a hidden origin', { Origin: 'null' }, 403],
      ['two sites', { Origin: `${LISTED}, https://evil.example` }, 403],
      ['a local page, which is not listed', { Origin: 'http://localhost:3000' }, 403],
      ['this site in capitals', { 'Sec-Fetch-Site': 'SAME-ORIGIN' }, 403],
    ]
    for (const [name, headers, status] of PAGES) {
      test(`with the right token, ${name} is answered ${status}`, async () => {
        const own = { ...cookie(login.cookie), 'X-CSRF-Token': login.csrf }
        const answer = await refresh({ ...own, ...headers })
        assert.equal(answer.status, status)
        if (status === 403) assert.equal(answer.text, CSRF_FAILED)
      })
    }

    test('GET /session gives a fresh token each time, and every one of them is good', async () => {
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

    test('who brings a token in the header or body needs none', async () => {
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

    test('the sessions have survived all that', async () => {
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
  /** What a browser sends, and how it is answered with a list, and in development without one. */
  const PAGES: [string, OutgoingHttpHeaders, listed: number, development: number][] = [
    ['our own page', { 'Sec-Fetch-Site': 'same-origin', Origin: 'https://x' }, 200, 200],
    ['the address bar', { 'Sec-Fetch-Site': 'none' }, 200, 200],
    ['a program', {}, 200, 200],
    ['a program that names an origin', { Origin: 'https://evil.example' }, 200, 200],
    ['a listed page', { 'Sec-Fetch-Site': 'cross-site', Origin: LISTED }, 200, 403],
    ['a listed neighbour', { 'Sec-Fetch-Site': 'same-site', Origin: LISTED }, 200, 403],
    [
      'a page of this machine',
      { 'Sec-Fetch-Site': 'cross-site', Origin: 'http://localhost:3000' },
      403,
      200,
    ],
    ['another site', { 'Sec-Fetch-Site': 'cross-site', Origin: 'https://evil.example' }, 403, 403],
    ['an unlisted neighbour', { 'Sec-Fetch-Site': 'same-site', Origin: 'https://x.app' }, 403, 403],
    ['a look-alike', { 'Sec-Fetch-Site': 'cross-site', Origin: `${LISTED}.evil.app` }, 403, 403],
    ['a hidden origin', { 'Sec-Fetch-Site': 'cross-site', Origin: 'null' }, 403, 403],
    ['a site without an origin', { 'Sec-Fetch-Site': 'cross-site' }, 403, 403],
    ['a site of no known kind', { 'Sec-Fetch-Site': 'x', Origin: 'null' }, 403, 403],
  ]
  const MODES = [
    ['with a list', { CORS_ORIGINS: LISTED }, 2],
    ['in development', {}, 3],
  ] as const
  for (const [mode, env, column] of MODES) {
    test(`${mode} is refused before anything is hashed or counted, unless it is listed`, async t => {
      const service = await startSessionService('sqlite', env, createAddresses())
      t.after(service.stop)
      await service.addUser('kate@example.com')
      for (const [name, headers, ...statuses] of PAGES) {
        const status = statuses[column - 2]
        const before = await service.database.rows('select * from login_throttle')
        for (const password of [PASSWORD, 'wrong']) {
          if (status === 200 && password === 'wrong') continue
          const body = { email: 'kate@example.com', password }
          const lines = await loggedBy(service, async () => {
            const answer = await service.call({ headers, body })
            assert.equal(answer.status, status, name)
            if (status !== 403) return
            assert.equal(answer.text, CSRF_FAILED)
            assert.equal(answer.headers['set-cookie'], undefined)
          })
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
