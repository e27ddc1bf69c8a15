// GET /verify without a session: the login page that a user is sent to, and the addresses that get none.
import assert from 'node:assert/strict'
import type { OutgoingHttpHeaders } from 'node:http'
import { after, before, describe, test } from 'node:test'
import { ENGINES_BY_RUN } from '../support/engines.ts'
import { type Answer, ISSUER, loggedBy } from '../support/service.ts'
import { AUTH, bearer, cookie, type Login } from '../support/session-client.ts'
import {
  assertRefused,
  forwarded,
  startVerifyService,
  type VerifyService,
} from '../support/verify-client.ts'

for (const engine of ENGINES_BY_RUN) {
  describe(`forward authentication without a session on ${engine}`, () => {
    let service: VerifyService
    let login: Login
    before(async () => {
      service = await startVerifyService(engine)
      login = await service.newLogin()
    })
    after(async () => {
      await service.assertSecretsKept()
      await service.stop()
    })
    const verify: VerifyService['verify'] = (headers, query) => service.verify(headers, query)
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

    const OTHERS: [host: string, uri: string][] = [
      ['app.example.com', '/listed-but-another-host'],
      ['evil.example', '/'],
      ['login.example.com.evil.example', '/'],
      ['login.example.com', '.evil.example/'],
      ['login.example.com', '@evil.example/'],
      ['login.example.com', ':444/'],
      ['kate:secret@login.example.com', '/'],
      ['login.example.com:444', '/'],
      ['login.example.com, evil.example', '/'],
      ['LOGIN.example.com', '/'],
      ['', '//evil.example/'],
      ['login.example.com', '/a b'],
      ['login.example.com', '/\\evil.example'],
      ['login.example.com', '/\u00e9'],
      ['login.example.com', '/a\tb'],
      ['login.example.com', `/${'x'.repeat(2_100)}`],
    ]
    for (const [host, uri] of OTHERS) {
      test(`tells no login page for ${host}${uri.slice(0, 30)}`, async () => {
        for (const headers of [nginx(`https://${host}${uri}`), caddy(host, uri)]) {
          const [line, ...rest] = await loggedBy(service, async () =>
            assertRefused(await verify(headers)),
          )
          assert.deepEqual([line?.event, line?.reason], ['request.refused', 'return-to'])
          assert.deepEqual(rest, [])
          assert.doesNotMatch(service.logText(), /secret/)
        }
      })
    }

    test('tells no login page for other schemes, and for several addresses', async () => {
      for (const url of [
        ...['http://login.example.com/', 'javascript:alert(1)', '//login.example.com/', '/orders'],
        ...['', `${ISSUER}\\`, [`${ISSUER}/a`, `${ISSUER}/b`]],
      ]) {
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
  })
}
