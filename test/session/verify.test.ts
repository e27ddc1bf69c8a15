// GET /verify with a session: the user, roles, second factors, changes by cookie, and what counts as use. Without one: the
// login page that a user is sent to, and the addresses that get none. The test is the trusted proxy at 127.0.0.1.
import assert from 'node:assert/strict'
import type { OutgoingHttpHeaders } from 'node:http'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { newUserWithApp } from '../support/authenticator.ts'
import { ENGINES_BY_RUN } from '../support/engines.ts'
import { inParallel } from '../support/own.ts'
import { type Answer, countStatuses, ISSUER, loggedBy, PASSWORD } from '../support/service.ts'
import {
  AUTH,
  bearer,
  CSRF_FAILED,
  cookie,
  loginIn,
  MINUTE_MS,
  ownSessions,
} from '../support/session-client.ts'

const LISTED = 'https://app.example.com'
const IDENTITY = ['remote-user', 'remote-email', 'remote-name', 'remote-role', 'remote-amr']
const TEMPLATES = process.env.TEST_TEMPLATES ?? ''
const ENV = {
  TRUST_PROXY: '127.0.0.1',
  TLS_CERT_FILE: join(TEMPLATES, 'development-cert.pem'),
  TLS_KEY_FILE: join(TEMPLATES, 'development-key.pem'),
  CORS_ORIGINS: LISTED,
  RETURN_TO_ORIGINS: `${ISSUER},${ISSUER}:8443,${LISTED}`,
}

let clients = 0

/** What a trusted proxy adds. Each request comes from another client, so that its refusal is logged, not counted. */
function forwarded() {
  clients++
  const address = `198.18.${Math.floor(clients / 250)}.${clients % 250}`
  return { 'X-Forwarded-Proto': 'https', 'X-Forwarded-For': address }
}

function assertFailed(answer: Answer, status: number, code: string, about?: string): void {
  assert.deepEqual([answer.status, answer.json.error.code], [status, code], about)
  for (const name of ['location', ...IDENTITY]) assert.equal(answer.headers[name], undefined, about)
}
const assertRefused = (answer: Answer, about?: string) =>
  assertFailed(answer, 401, 'INVALID_TOKEN', about)

for (const engine of ENGINES_BY_RUN) {
  describe(`forward authentication on ${engine}`, async () => {
    const service = await ownSessions(engine, ENV)
    const verify = (headers: OutgoingHttpHeaders, query = '') =>
      service.get(`/verify${query}`, { ...forwarded(), ...headers })
    /** A browser's login through the proxy. */
    async function newLogin(name = 'Kate') {
      const email = `user${++clients}@example.com`
      await service.addUser(email, { name })
      return service.browserLogin(email, { headers: forwarded() })
    }
    const login = await newLogin()
    async function assertLogged(reason: string, call: () => Promise<void>): Promise<void> {
      const lines = await loggedBy(service, call)
      const told = lines.map(({ event, reason }) => [event, reason])
      assert.deepEqual(told, [['request.refused', reason]])
    }

    test('tells the user of a session cookie or an access token', async () => {
      for (const credential of [cookie(login.cookie), bearer(login.accessToken)]) {
        const { status, headers, text } = await verify(credential)
        const { email } = login.answer.json.data.user
        assert.deepEqual([status, text], [200, '{"success":true,"data":{}}'])
        const told = IDENTITY.map(name => headers[name])
        assert.deepEqual(told, [login.userId, email, 'Kate', 'user', 'pwd'])
        assert.equal(headers['cache-control'], 'no-store')
        assert.equal(headers['set-cookie'], undefined)
      }
      assert.equal((await verify({ ...cookie(login.cookie), ...bearer('x') })).status, 401)
    })

    const NAMES: [name: string, header: string][] = [
      ['Zoë 😀', 'Zo%C3%AB %F0%9F%98%80'],
      ['100% "Kate" <b>; a=b, c', '100%25 "Kate" <b>; a=b, c'],
      ['Kate\r\nRemote-Role: admin\r\n\r\n', 'Kate%0D%0ARemote-Role: admin%0D%0A%0D%0A'],
      ['\t\u007f\u0085\u2028', '%09%7F%C2%85%E2%80%A8'],
      ['', ''],
    ]
    test('encodes the name', async () => {
      for (const [name, header] of NAMES) {
        const { headers } = await verify(cookie((await newLogin(name)).cookie))
        assert.deepEqual([headers['remote-name'], headers['remote-role']], [header, 'user'])
        assert.equal(decodeURIComponent(header), name)
      }
    })

    test('refuses a user with another role, and logs it', async () => {
      const { cookie: value, userId } = await newLogin()
      for (const role of ['user', 'admin,user', 'user,user']) {
        assert.equal((await verify(cookie(value), `?role=${role}`)).status, 200, role)
      }
      for (const role of ['admin', 'admin,auditor', 'User', 'use', 'users', '%20user', 'user%00']) {
        await assertLogged('role', async () =>
          assertFailed(await verify(cookie(value), `?role=${role}`), 403, 'FORBIDDEN', role),
        )
      }
      await service.database.rows(`update users set role = 'admin' where id = '${userId}'`)
      const { status, headers } = await verify(cookie(value), '?role=admin,auditor')
      assert.deepEqual([status, headers['remote-role']], [200, 'admin'])
    })

    test('refuses a user without a second factor if one is demanded, and logs it', async () => {
      const call: typeof service.call = request =>
        service.call({ ...request, headers: { ...forwarded(), ...request.headers } })
      const { email, app, answer } = await newUserWithApp({ ...service, call }, () => '127.0.0.1')
      const body = { email, password: PASSWORD, otp: app.code() }
      const browser = { 'Sec-Fetch-Site': 'same-origin' }
      const twoSteps = loginIn(await call({ body, headers: browser }))
      // Setting up has proved the factor, too.
      for (const credential of [
        cookie(twoSteps.cookie),
        bearer(twoSteps.accessToken),
        bearer(answer.json.data.accessToken),
      ]) {
        for (const query of ['', '?amr=mfa', '?role=user&amr=mfa', '?amr=mfa&role=admin,user']) {
          const { status, headers } = await verify(credential, query)
          assert.deepEqual([status, headers['remote-amr']], [200, 'pwd,otp,mfa'], query)
        }
        await assertLogged('role', async () =>
          assertFailed(await verify(credential, '?role=admin&amr=mfa'), 403, 'FORBIDDEN'),
        )
      }
      for (const credential of [cookie(login.cookie), bearer(login.accessToken)]) {
        for (const query of ['?amr=mfa', '?role=user&amr=mfa']) {
          await assertLogged('amr', async () =>
            assertFailed(await verify(credential, query), 403, 'FORBIDDEN', query),
          )
        }
      }
      assertRefused(await verify({}, '?amr=mfa'))
    })

    test('refuses every other query, also one that is too long', async () => {
      for (const query of [
        ...['?role', '?role=', '?role=,', '?role=user,', '?role=,user', '?role=a,,b', '?=user'],
        ...['?roles=user', '?role=user&x', '?role=user&role=user', '?role[]=user', '?Role=user'],
        ...['?amr', '?amr=', '?amr=x', '?amr=pwd', '?amr=MFA', '?amr=mfa,pwd', '?amr=mfa&x'],
        ...['?amr=mfa&amr=mfa', '?amr[]=mfa', '?Amr=mfa', '?role=user&amr=x', '?role=&amr=mfa'],
        ...['?&', `?role=user&${'x&'.repeat(30)}`, `?${'&'.repeat(30)}x=1&role=user`],
        ...[`?role=user,${'x'.repeat(9_000)}`, `?${'&'.repeat(9_000)}`],
      ]) {
        const answer = await verify(cookie(login.cookie), query)
        assertFailed(answer, 400, 'BAD_REQUEST', query)
        if (query.length < 200) assert.deepEqual(answer.json.error.fields, ['role', 'amr'], query)
      }
    })

    const CHANGES: [status: number, headers: OutgoingHttpHeaders][] = [
      [200, { 'Sec-Fetch-Site': 'same-origin' }],
      [200, { 'Sec-Fetch-Site': 'same-site', Origin: LISTED }],
      [403, { 'Sec-Fetch-Site': 'same-site', Origin: 'https://evil.example.com' }],
      [403, { 'Sec-Fetch-Site': 'cross-site' }],
      [403, { 'Sec-Fetch-Site': 'none' }],
      [403, { Origin: ISSUER }],
      [403, {}],
    ]
    for (const [status, headers] of CHANGES) {
      test(`a change by cookie with ${JSON.stringify(headers)} is answered ${status}`, async () => {
        for (const method of ['POST', 'PUT', 'PATCH', 'DELETE', 'post', 'get', 'GET, POST', '']) {
          for (const name of ['X-Original-Method', 'X-Forwarded-Method']) {
            const asked = { [name]: method, ...headers }
            const answer = await verify({ ...cookie(login.cookie), ...asked })
            assert.equal(answer.status, status, `${name}: ${method}`)
            if (status === 403) assert.equal(answer.text, CSRF_FAILED)
            assert.equal((await verify({ ...bearer(login.accessToken), ...asked })).status, 200)
          }
        }
      })
    }

    test('a client cannot hide a change in the header that its proxy does not replace', async () => {
      for (const [real, forged] of [
        ['X-Original-Method', 'X-Forwarded-Method'],
        ['X-Forwarded-Method', 'X-Original-Method'],
      ] as const) {
        const headers = { ...cookie(login.cookie), [real]: 'POST', [forged]: 'GET' }
        assert.equal((await verify(headers)).status, 403)
        assert.equal((await verify({ ...headers, [real]: ['GET', 'POST'] })).status, 403)
      }
      for (const method of ['GET', 'HEAD', 'OPTIONS']) {
        const read = { ...cookie(login.cookie), 'X-Original-Method': method }
        assert.equal((await verify(read)).status, 200, method)
      }
    })

    test('takes headers of 15 KB, and those of an upload without its body', async () => {
      const { cookie: value } = await newLogin()
      const long = {
        'X-Long': 'x'.repeat(14_500),
        Cookie: `a=${'b'.repeat(300)}; ${cookie(value).Cookie}`,
      }
      assert.equal((await verify(long)).status, 200)
      assert.equal((await verify({ ...long, 'X-More': 'x'.repeat(2_000) })).status, 431)
      const upload = { 'Content-Encoding': 'gzip', 'Content-Type': `a/b; c=${'x'.repeat(300)}` }
      assert.equal((await verify({ ...cookie(value), ...upload })).status, 200)
      const url = `${ISSUER}/${'x'.repeat(14_000)}`
      assertRefused(await verify({ 'X-Original-URL': url }))
    })

    const nginx = (url: string) => ({ 'X-Original-URL': url, 'X-Original-Method': 'GET' })
    const caddy = (host: string, uri: string) => ({
      'X-Forwarded-Host': host,
      'X-Forwarded-Uri': uri,
      'X-Forwarded-Method': 'GET',
      'Sec-Fetch-Mode': 'navigate',
    })

    function assertSentToLogin({ headers }: Answer, expected: string): void {
      const { origin, pathname, search, searchParams } = new URL(headers.location ?? '')
      assert.deepEqual([origin, pathname], [ISSUER, '/login'])
      assert.equal(searchParams.get('return_to'), expected)
      assert.equal([...searchParams].length, 1, search)
      assert.equal(headers['cache-control'], 'no-store')
    }

    const ADDRESSES: [host: string, uri: string][] = [
      ['login.example.com', '/orders?page=2&sort=%26&x=a+b#not-sent'],
      ['login.example.com:8443', '/?return_to=https://evil.example&role=admin'],
      ['login.example.com', `/${'x'.repeat(1_900)}`],
    ]
    for (const [host, uri] of ADDRESSES) {
      test(`leads from ${host}${uri.slice(0, 20)}… to the login page, and from there back`, async () => {
        const address = `https://${host}${uri}`
        for (const dead of [{}, cookie('A'.repeat(43)), bearer('x')]) {
          const told = await verify({ ...nginx(address), ...dead })
          assert.deepEqual([told.status, told.json.error.code], [401, 'INVALID_TOKEN'])
          assertSentToLogin(told, address)
          const sent = await verify({ ...caddy(host, uri), ...dead })
          assert.deepEqual([sent.status, sent.text], [302, ''])
          assertSentToLogin(sent, address)
        }
      })
    }

    test('sends only a user that opens a page to the login page, and nginx always the address', async () => {
      const visit = caddy('login.example.com', '/orders')
      for (const other of [
        { 'X-Forwarded-Method': 'POST' },
        { 'X-Forwarded-Method': 'HEAD' },
        { 'Sec-Fetch-Mode': 'cors' },
        { 'Sec-Fetch-Mode': 'websocket' },
        { 'Sec-Fetch-Mode': ['navigate', 'cors'] },
        { 'X-Forwarded-Method': ['GET', 'GET'] },
      ]) {
        assertRefused(await verify({ ...visit, ...other }), JSON.stringify(other))
      }
      const both = { ...visit, ...nginx(`${ISSUER}/orders`), 'X-Original-Method': 'POST' }
      const told = await verify(both)
      assert.equal(told.status, 401)
      assertSentToLogin(told, `${ISSUER}/orders`)
    })

    test('tells no login page for the addresses of others, and for several addresses', async () => {
      for (const [host, uri] of [
        ['app.example.com', '/listed-but-another-host'],
        ['evil.example', '/'],
        ['login.example.com', '.evil.example/'],
        ['login.example.com', '@evil.example/'],
        ['login.example.com', ':444/'],
        ['kate:secret@login.example.com', '/'],
        ['login.example.com, evil.example', '/'],
        ['', '//evil.example/'],
        ['login.example.com', '/a\tb'],
      ] as const) {
        for (const headers of [nginx(`https://${host}${uri}`), caddy(host, uri)]) {
          await assertLogged('return-to', async () => assertRefused(await verify(headers), host))
          assert.doesNotMatch(service.logText(), /secret/)
        }
      }
      for (const url of ['', '/orders', [`${ISSUER}/a`, `${ISSUER}/b`]]) {
        assertRefused(await verify({ 'X-Original-URL': url }), String(url))
      }
      const visit = caddy('login.example.com', '/')
      assertRefused(await verify({ ...visit, 'X-Forwarded-Uri': ['/a', '/b'] }))
      const hosts = ['login.example.com', 'login.example.com']
      assertRefused(await verify({ ...visit, 'X-Forwarded-Host': hosts }))
    })

    test('believes no address from a caller that is not a trusted proxy', async () => {
      const direct = (headers: OutgoingHttpHeaders) =>
        service.call({ method: 'GET', path: `${AUTH}/verify`, headers, from: '127.0.0.2' })
      assertRefused(await direct({ ...nginx(`${ISSUER}/`), ...forwarded() }))
      assertRefused(await direct({ ...caddy('login.example.com', '/'), ...forwarded() }))
      assert.equal((await direct(cookie(login.cookie))).status, 200)
      const change = { ...cookie(login.cookie), 'X-Forwarded-Method': 'POST' }
      assert.equal((await direct(change)).status, 403)
    })

    test('counts as use of the cookie, also of many calls at once', async () => {
      const { cookie: value } = await newLogin()
      for (const minutes of [20, 20, 20, 30]) {
        service.advance(minutes * MINUTE_MS)
        const answers = await inParallel(20, () => verify(cookie(value), '?role=user'))
        assert.deepEqual(countStatuses(answers), { [minutes < 30 ? 200 : 401]: 20 })
      }
    })
  })
}
