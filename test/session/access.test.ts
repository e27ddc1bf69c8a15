// Which credentials a client gets, and where each of them is accepted.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import type { OutgoingHttpHeaders } from 'node:http'
import { type AddressInfo, createServer } from 'node:net'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { decodeJwt, exportJWK, generateKeyPair } from 'jose'
import { loadKeySet } from '../../src/keys/key-file.ts'
import { ENGINES_BY_RUN } from '../support/engines.ts'
import { until } from '../support/process.ts'
import { type Answer, PASSWORD, startTestService } from '../support/service.ts'
import {
  AUTH,
  bearer,
  cookie,
  cookieIn,
  DEVICE_COOKIE,
  INVALID_TOKEN,
  NO_CREDENTIAL,
  ownChange,
  ownSessions,
  resigned,
  SECOND_MS,
  SESSION_COOKIE,
} from '../support/session-client.ts'

const ENDPOINTS: [method: string, path: string][] = [
  ['GET', '/session'],
  ['GET', '/sessions'],
  ['DELETE', '/sessions'],
  ['DELETE', '/sessions/7d1ad5f1-5a8c-4e8c-9d1c-0a4b4f1f0e55'],
]
const ALLOWED: [path: string, allow: string][] = [
  ['/login', 'POST'],
  ['/refresh', 'POST'],
  ['/logout', 'POST'],
  ['/session', 'GET, HEAD'],
  ['/sessions', 'GET, HEAD, DELETE'],
  ['/sessions/7d1ad5f1-5a8c-4e8c-9d1c-0a4b4f1f0e55', 'DELETE'],
  ['/sessions/x', 'DELETE'],
]
const METHODS = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'PROPFIND']

const ATTRIBUTES = ['HttpOnly', 'Path=/', 'SameSite=Strict', 'Secure']
/** The length of 256 random bits; the device cookie adds a tag of 128 bits. */
const SESSION_CHARACTERS = 43
const DEVICE_CHARACTERS = 65
const MAX_AGE = `Max-Age=${180 * 24 * 3600}`

const CREDENTIALS = ['accessToken', 'refreshToken', 'cookie', 'device', 'csrf'] as const
type Credential = (typeof CREDENTIALS)[number]

for (const engine of ENGINES_BY_RUN) {
  describe(`access to sessions on ${engine}`, async () => {
    const service = await ownSessions(engine)
    await service.addUser('kate@example.com')
    let login = await service.browserLogin('kate@example.com')
    const { accessKeys } = await loadKeySet(join(service.dataDir, 'signing-keys.json'))
    const [genuine] = accessKeys
    assert.ok(genuine)

    async function statusWith(token: string): Promise<number> {
      const { status, text } = await service.get('/session', bearer(token))
      if (status !== 200) assert.equal(text, INVALID_TOKEN)
      return status
    }

    test('key addresses in a token are not fetched, and a key in a token is not used', async () => {
      let connections = 0
      const listener = createServer(socket => {
        connections++
        socket.destroy()
      }).listen(0, '127.0.0.1')
      await once(listener, 'listening')
      const { port } = listener.address() as AddressInfo
      const { publicKey, privateKey } = await generateKeyPair('ES256')
      const jwk = await exportJWK(publicKey)
      const url = `http://127.0.0.1:${port}/keys.json`
      const headers = [{ jku: url }, { x5u: url }, { jwk }, { jku: url, kid: '' }]
      for (const header of [...headers, { kid: url }, { kid: '', jwk }]) {
        const token = await resigned(login.accessToken, privateKey, header)
        assert.equal(await statusWith(token), 401, JSON.stringify(header))
      }
      const own = await resigned(login.accessToken, genuine.signingKey, { jku: url, x5u: url })
      assert.equal(await statusWith(own), 200)
      listener.close()
      assert.equal(connections, 0)
    })

    test('a token is accepted for 30 seconds after its expiry, and no longer', async t => {
      service.stopClock(t)
      const { accessToken } = await service.programLogin('kate@example.com')
      const exp = (decodeJwt(accessToken).exp ?? 0) * SECOND_MS
      service.advanceTo(exp + 27 * SECOND_MS)
      assert.equal(await statusWith(accessToken), 200)
      service.advanceTo(exp + 31 * SECOND_MS)
      assert.equal(await statusWith(accessToken), 401)
      login = await service.browserLogin('kate@example.com')
    })

    for (const [method, path] of ENDPOINTS) {
      test(`${method} ${path.slice(0, 12)} refuses a token anywhere but as the bearer`, async () => {
        const token = login.accessToken
        const places: [query: string, headers: object, refusal?: string][] = [
          ['', {}],
          [`?access_token=${token}`, {}],
          [`?token=${token}&refreshToken=${login.refreshToken}`, {}],
          ['', { Authorization: token }],
          ['', { Authorization: `Basic ${token}` }],
          ['', { Authorization: `Bearer  ${token}` }, INVALID_TOKEN],
          ['', { 'X-Access-Token': token }],
        ]
        for (const [query, given, refusal = NO_CREDENTIAL] of places) {
          const call = { method, path: `${AUTH}${path}${query}`, headers: { ...given } }
          const { status, text, headers } = await service.call(call)
          assert.deepEqual([status, text, headers['cache-control']], [401, refusal, 'no-store'])
        }
      })
    }

    for (const [path, allow] of ALLOWED) {
      test(`${path.slice(0, 12)} allows ${allow} only`, async () => {
        for (const method of METHODS.filter(name => !allow.split(', ').includes(name))) {
          const headers = bearer(login.accessToken)
          const answer = await service.call({ method, path: `${AUTH}${path}`, headers })
          assert.deepEqual([answer.status, answer.headers.allow], [405, allow], method)
          assert.equal(answer.json.error.code, 'METHOD_NOT_ALLOWED')
          assert.equal(answer.headers['cache-control'], 'no-store')
        }
      })
    }

    test('HEAD is answered 200 without a body, and the case of the Bearer scheme does not matter', async () => {
      const headers = { Authorization: `bEARER ${login.accessToken}` }
      for (const path of ['/session', '/sessions']) {
        const call = { method: 'HEAD', path: `${AUTH}${path}`, headers }
        const { status, text } = await service.call(call)
        assert.deepEqual([status, text], [200, ''])
      }
    })

    const refreshWith = (headers: OutgoingHttpHeaders, body?: object) =>
      service.call({ path: `${AUTH}/refresh`, headers, ...(body && { body }) })
    const refreshBy = (changed: object) => refreshWith(ownChange({ ...login, ...changed }))

    async function assertAlive(): Promise<void> {
      for (const headers of [bearer(login.accessToken), cookie(login.cookie)]) {
        const { status, json } = await service.get('/session', headers)
        assert.deepEqual([status, json.data.session.id], [200, login.sessionId])
      }
    }

    /** The statuses answer a value of another kind. Every other part of the request is valid. */
    const PLACES: [
      name: string,
      belongs: Credential,
      refused: number[],
      present: (value: string) => Promise<Answer>,
    ][] = [
      ['bearer', 'accessToken', [401], value => service.get('/session', bearer(value))],
      ['session cookie', 'cookie', [401], value => service.get('/session', cookie(value))],
      ['cookie of a refresh', 'cookie', [401, 403], value => refreshBy({ cookie: value })],
      ['CSRF token', 'csrf', [403], value => refreshBy({ csrf: value })],
      ['refresh token', 'refreshToken', [401], value => service.refresh(value)],
    ]
    for (const [name, belongs, refused, present] of PLACES) {
      test(`only the ${belongs} is accepted as the ${name}`, async () => {
        for (const credential of CREDENTIALS.filter(other => other !== belongs)) {
          const { status, json, headers } = await present(login[credential])
          assert.ok(refused.includes(status), `${credential}: ${status}`)
          assert.equal(json.error.code, status === 401 ? 'INVALID_TOKEN' : 'CSRF_FAILED')
          assert.equal(json.data, undefined)
          assert.equal(headers['set-cookie'], undefined)
          await assertAlive()
        }
        const { status, text, json } = await present(login[belongs])
        assert.equal(status, 200, text)
        if (json.data.refreshToken) login.refreshToken = json.data.refreshToken
        await assertAlive()
      })
    }

    test('no other credential ends a session as the refresh token of a logout', async () => {
      for (const credential of CREDENTIALS.filter(other => other !== 'refreshToken')) {
        assert.equal((await service.logout(login[credential])).text, '{"success":true,"data":{}}')
        await assertAlive()
      }
    })

    test('a login keeps the device of a device cookie only', async () => {
      for (const credential of CREDENTIALS) {
        const answer = await service.call({
          headers: { 'Sec-Fetch-Site': 'same-origin', ...cookie(login[credential], DEVICE_COOKIE) },
          body: { email: 'kate@example.com', password: PASSWORD },
        })
        assert.equal(answer.status, 200)
        const isKept = cookieIn(answer, DEVICE_COOKIE) === login.device
        assert.equal(isKept, credential === 'device', credential)
        await assertAlive()
      }
    })

    test('no credential is accepted as a password', async () => {
      for (const credential of CREDENTIALS) {
        const { status } = await service.login('kate@example.com', login[credential], '127.5.0.1')
        assert.equal(status, 401)
      }
      await assertAlive()
    })

    const statusByCookie = async (value: string) =>
      (await service.get('/session', cookie(value))).status

    for (const site of ['same-origin', 'same-site', 'cross-site', 'none']) {
      test(`a login from a browser (${site}) gets two cookies and a CSRF token, which are new each time`, async () => {
        const call = { headers: { 'Sec-Fetch-Site': site, Origin: 'http://localhost:3000' } }
        const email = await service.newUser()
        const seen = new Set<string>()
        for (const login of [
          await service.browserLogin(email, call),
          await service.browserLogin(email, call),
        ]) {
          const { answer, cookie, device, csrf, accessToken, refreshToken } = login
          const cookies = (answer.headers['set-cookie'] ?? []).map(line => line.split('; '))
          assert.deepEqual(
            cookies.map(([pair = '', ...attributes]) => [
              pair.split('=')[0],
              /=([\w-]+)$/.exec(pair)?.[1]?.length,
              attributes.toSorted(),
            ]),
            [
              [SESSION_COOKIE, SESSION_CHARACTERS, ATTRIBUTES],
              [DEVICE_COOKIE, DEVICE_CHARACTERS, [...ATTRIBUTES, MAX_AGE].toSorted()],
            ],
          )
          assert.match(csrf, /^[\w-]{22}\.[\w-]{43}$/)
          for (const secret of [cookie, device, csrf]) assert.ok(!answer.text.includes(secret))
          for (const secret of [cookie, device, csrf, accessToken, refreshToken]) seen.add(secret)
        }
        assert.equal(seen.size, 10)
      })
    }

    test('a failed login and a login by a program get neither cookies nor a CSRF token', async () => {
      const email = await service.newUser()
      const program = await service.login(email, PASSWORD)
      const failed = await service.call({
        headers: { 'Sec-Fetch-Site': 'same-origin' },
        body: { email, password: 'wrong' },
      })
      assert.deepEqual([program.status, failed.status], [200, 401])
      for (const { headers } of [program, failed]) {
        assert.equal(headers['set-cookie'], undefined)
        assert.equal(headers['x-csrf-token'], undefined)
      }
    })

    test('a refresh by cookie gives an access token of the same session, and no refresh token', async () => {
      const login = await service.browserLogin(await service.newUser())
      for (const headers of [ownChange(login), { ...ownChange(login), 'Content-Type': 'text/x' }]) {
        const answer = await refreshWith(headers)
        assert.equal(answer.status, 200)
        assert.deepEqual(Object.keys(answer.json.data), ['user', 'accessToken', 'expiresIn'])
        assert.deepEqual(answer.json.data.user, login.answer.json.data.user)
        assert.equal(answer.json.data.expiresIn, 3600)
        assert.equal(answer.headers['set-cookie'], undefined)
        const session = await service.get('/session', bearer(answer.json.data.accessToken))
        assert.equal(session.json.data.session.id, login.sessionId)
      }
      assert.equal((await service.refresh(login.refreshToken)).status, 200)
    })

    test('a token takes precedence over a cookie, and a refusal clears no cookie', async () => {
      const email = await service.newUser()
      const [first, second] = [await service.browserLogin(email), await service.browserLogin(email)]
      const both = { ...cookie(first.cookie), ...bearer(second.accessToken) }
      const shown = await service.get('/session', both)
      assert.equal(shown.json.data.session.id, second.sessionId)
      assert.equal(shown.headers['x-csrf-token'], undefined)
      const { refreshToken } = second
      const refreshed = await refreshWith(ownChange(first), { refreshToken })
      assert.ok(refreshed.json.data.refreshToken)
      service.advance(61 * SECOND_MS)
      const refused = [
        await service.get('/session', { ...cookie(first.cookie), ...bearer('garbage') }),
        await service.get('/session', { ...cookie(first.cookie), Authorization: 'Bearer' }),
        await service.delete('/sessions', { ...ownChange(first), ...bearer('garbage') }),
        await refreshWith(ownChange(first), { refreshToken: 'garbage' }),
        await refreshWith(ownChange(first), { refreshToken }),
        await service.get('/session', cookie(second.cookie)),
      ]
      for (const { status, text, headers } of refused) {
        assert.deepEqual([status, text, headers['set-cookie']], [401, INVALID_TOKEN, undefined])
      }
      assert.equal(await statusByCookie(first.cookie), 200)
    })

    test('a cookie that differs from the issued one in name or value is refused', async () => {
      const { cookie: value, device } = await service.browserLogin(await service.newUser())
      const changed = [`${value}=`, `${value}=x`, `"${value}"`, `${value}A`, value.slice(1)]
      for (const other of [...changed, '', device])
        assert.equal(await statusByCookie(other), 401, other)
      const named = (name: string) => service.get('/session', cookie(value, name))
      for (const name of ['session', '__host-session', 'x__Host-session', DEVICE_COOKIE]) {
        assert.equal((await named(name)).status, 401, name)
      }
      const among = { Cookie: `a=b; ${SESSION_COOKIE}=${value}; c` }
      assert.equal((await service.get('/session', among)).status, 200)
    })
  })
}

test('a request that reads its session by the cookie ends before the store closes', async () => {
  const paths = ['/session', '/sessions', '/verify']
  let waiting = 0
  const wait = () => {
    waiting++
    return new Promise<never>(() => {})
  }
  const service = await startTestService('sqlite', {}, null, undefined, store => ({
    ...store,
    sessions: { ...store.sessions, findLiveByCookie: wait },
  }))
  for (const path of paths) {
    const call = { method: 'GET', path: `${AUTH}${path}`, headers: cookie('A'.repeat(43)) }
    service.call(call).catch(() => {})
  }
  await until(async () => waiting === paths.length)
  await service.stop()
  const cutOff = service.logged().find(({ event }) => event === 'service.cut_off')
  assert.equal(cutOff?.unfinished, paths.length)
})
