// Runs the recipes of docs/integrating.md for nginx and Caddy.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type IncomingMessage, type OutgoingHttpHeaders } from 'node:http'
import { request as httpsRequest } from 'node:https'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { after, describe, test } from 'node:test'
import { own } from '../../support/own.ts'
import { freePort } from '../../support/postgres-server.ts'
import type { RunningProcess } from '../../support/process.ts'
import { example, makeRecipeFolder, recipe } from '../../support/recipes.ts'
import { type Answer, type Call, createClient } from '../../support/service.ts'
import {
  DEVICE_COOKIE,
  type Login,
  MINUTE_MS,
  SESSION_COOKIE,
  startSessionService,
} from '../../support/session-client.ts'
import { NAVIGATION, refreshIn } from '../../support/visitor.ts'
import { nginxFile, PROXIES, type ProxyName, startProxy } from '../proxy.ts'
import { assertSamePublicPaths, listPublicPaths } from './public-paths.ts'

const CERT_FILE = join(process.env.TEST_TEMPLATES ?? '', 'development-cert.pem')
const KEY_FILE = CERT_FILE.replace('cert.pem', 'key.pem')

/** What the application got. */
type Seen = { method: string; url: string; headers: Record<string, string[]>; bytes: number }

const OPENS_PAGE = { 'Sec-Fetch-Mode': 'navigate', 'Sec-Fetch-Site': 'none' }
const OWN_SCRIPT = { 'Sec-Fetch-Mode': 'cors', 'Sec-Fetch-Site': 'same-origin' }
const FORWARDED = { 'X-Forwarded-Proto': 'https', 'X-Forwarded-For': '127.0.0.1' }
const UPGRADE = {
  Connection: 'Upgrade',
  Upgrade: 'websocket',
  'Sec-WebSocket-Version': '13',
  'Sec-WebSocket-Key': 'dGhlIHNhbXBsZSBub25jZQ==',
  'Sec-Fetch-Mode': 'websocket',
  'Sec-Fetch-Site': 'same-origin',
}
const FORGED = {
  'Remote-User': 'forged',
  'remote-role': 'forged',
  'Remote-Email': ['forged', 'forged'],
  'Remote-Groups': 'forged',
  'Remote-Amr': 'forged',
  Remote_User: 'forged',
  REMOTE_ROLE: 'forged',
  Remote_Amr: 'forged',
}
/** Cookies of the service, besides those of a login. */
const OTHERS = '__Host-departures=1; __Host-done=ended; __Host-second-step=1'
/** The longest name. Each character becomes 12. */
const NAME = '😀'.repeat(100)

for (const name of ['nginx', 'Caddy'] as const) {
  describe(`${name} in front of an application`, async () => {
    const address = `https://localhost:${await freePort()}`
    const env = { TRUST_PROXY: '127.0.0.1', JWT_ISSUER: address, RETURN_TO_ORIGINS: address }
    const service = await startSessionService('sqlite', env)
    const application = await startApplication()
    const places = { address, service: new URL(service.url).host, application: application.host }
    const proxy = await own(createAuthProxy(name, places))
    after(application.stop)
    after(service.stop)
    await proxy.restart()
    await service.addUser('kate@example.com', { name: NAME })
    const login = await service.browserLogin('kate@example.com', { headers: FORWARDED })

    const get = (path: string, headers: OutgoingHttpHeaders = {}) =>
      proxy.call({ method: 'GET', path, headers })
    const cookies = (login: Login) => ({
      Cookie: `a=1; ${SESSION_COOKIE}=${login.cookie}; ${DEVICE_COOKIE}=${login.device}; ${OTHERS}; b=2`,
    })
    /** What the application got. */
    function seenBy({ status, text }: Answer): Seen {
      assert.equal(status, 200, text)
      return JSON.parse(text)
    }

    test('a visitor is sent to the login page, and from there to the same address', async () => {
      const path = '/orders?page=2&sort=name&x=%26%3D'
      const { status, headers } = await get(path, OPENS_PAGE)
      assert.equal(status, 302)
      const { origin, pathname, search, searchParams } = new URL(headers.location ?? '')
      assert.deepEqual([origin, pathname], [address, '/login'])
      assert.equal(searchParams.get('return_to'), `${address}${path}`)
      const page = await get(`${pathname}${search}`, { ...cookies(login), ...NAVIGATION })
      assert.equal(refreshIn(page), `${address}${path}`)
      const [asset = ''] = /\/assets\/[^"]+\.js/.exec(page.text) ?? []
      assert.equal((await get(asset)).status, 200)
      const body = { email: 'kate@example.com', password: 'wrong' }
      assert.equal((await proxy.call({ headers: OWN_SCRIPT, body })).status, 401)
      assert.equal(seenBy(await get(path, cookies(login))).url, path)
    })

    const callDirectly = (call: Call) => service.call({ ...call, headers: FORWARDED })

    test('every public path leads to the login service', () =>
      assertSamePublicPaths(proxy.call, callDirectly))

    test('the example for Traefik has every public path', async () => {
      const rules = [...example('traefik.yaml').matchAll(/Path(Prefix)?\(`([^`]+)`\)/g)]
      for (const { path } of await listPublicPaths(callDirectly)) {
        assert.ok(
          rules.some(([, isPrefix, rule = '']) =>
            isPrefix ? path.startsWith(rule) : path === rule,
          ),
          path,
        )
      }
    })

    test('the application gets the user, and neither forged headers nor cookies of the service', async () => {
      const credentials = [
        cookies(login),
        { Cookie: 'a=1; b=2', Authorization: `Bearer ${login.accessToken}` },
      ]
      for (const credential of credentials) {
        const { headers } = seenBy(await get('/', { ...FORGED, ...credential }))
        assert.deepEqual(headers['remote-user'], [login.userId])
        assert.deepEqual(headers['remote-email'], ['kate@example.com'])
        assert.deepEqual(headers['remote-name'], [encodeURIComponent(NAME)])
        assert.deepEqual(headers['remote-role'], ['user'])
        assert.deepEqual(headers['remote-amr'], ['pwd'])
        assert.deepEqual(headers.cookie, ['a=1; b=2'])
        assert.doesNotMatch(JSON.stringify(headers), /forged|__Host-/)
      }
      const own = `${SESSION_COOKIE}=${login.cookie}`
      for (const Cookie of [own, `${own}; ${own}; ${own}`, `${own};${DEVICE_COOKIE}=x;${own}`]) {
        const { headers } = seenBy(await get('/', { Cookie }))
        assert.doesNotMatch(JSON.stringify(headers), /__Host-/)
      }
    })

    test('a request without a session does not reach the application', async () => {
      for (const headers of [FORGED, OWN_SCRIPT, { 'X-Original-URL': `${address}/` }, UPGRADE]) {
        const { status, text } = await get('/', headers)
        assert.equal(status, 401)
        assert.doesNotMatch(text, /"method"/)
      }
      const forged = { ...OPENS_PAGE, 'X-Forwarded-Host': 'evil.example', 'X-Forwarded-Uri': '/x' }
      const { location = '' } = (await get('/orders', forged)).headers
      assert.equal(new URL(location).searchParams.get('return_to'), `${address}/orders`)
    })

    test('a change must come from a page of this origin', async () => {
      const post = (headers: OutgoingHttpHeaders) =>
        proxy.call({ path: '/orders', headers: { ...cookies(login), ...headers }, body: { a: 1 } })
      assert.equal(seenBy(await post(OWN_SCRIPT)).method, 'POST')
      for (const hidden of [{}, { 'X-Forwarded-Method': 'GET' }, { 'X-Original-Method': 'GET' }]) {
        assert.equal((await post({ 'Sec-Fetch-Site': 'same-site', ...hidden })).status, 403)
      }
    })

    test('a large upload reaches the application, not the login service', async () => {
      const body = Buffer.alloc(5_000_000, 'x')
      const headers = { ...cookies(login), ...OWN_SCRIPT, 'Content-Encoding': 'gzip' }
      for (const framing of [
        { 'Content-Length': body.length },
        { 'Content-Length': body.length, Expect: '100-continue' },
        { 'Transfer-Encoding': 'chunked' },
      ]) {
        const answer = await proxy.call({ path: '/', headers: { ...headers, ...framing }, body })
        assert.equal(seenBy(answer).bytes, body.length)
      }
    })

    test('a WebSocket is opened for a user, with the same headers', async () => {
      const outgoing = httpsRequest(new URL('/socket', address), {
        headers: { ...FORGED, ...cookies(login), ...UPGRADE },
        rejectUnauthorized: false,
      }).end()
      const [answer, socket, head] = await once(outgoing, 'upgrade')
      assert.equal(answer.statusCode, 101)
      const first = head.length > 0 ? head : (await once(socket, 'data'))[0]
      socket.destroy()
      const { url, headers } = JSON.parse(String(first))
      assert.equal(url, '/socket')
      assert.deepEqual(headers['remote-user'], [login.userId])
      assert.doesNotMatch(JSON.stringify(headers), /forged|__Host-/)
    })

    test('after the session has ended, a form gets 401 and an opened page leads to the login', async () => {
      service.advance(31 * MINUTE_MS)
      const form = { ...OPENS_PAGE, 'Sec-Fetch-Site': 'same-origin', ...cookies(login) }
      const sent = await proxy.call({ path: '/orders', headers: form, body: { a: 1 } })
      assert.deepEqual([sent.status, sent.headers.location], [401, undefined])
      assert.doesNotMatch(sent.text, /"method"/)
      const opened = await get('/orders', form)
      assert.equal(opened.status, 302)
      assert.match(opened.headers.location ?? '', /^https:\/\/localhost:\d+\/login\?return_to=/)
    })

    test('users with another role or without a second factor get 403; a question that cannot be understood admits no user', async () => {
      const bearer = { Authorization: `Bearer ${login.accessToken}` }
      assert.equal(seenBy(await get('/', bearer)).method, 'GET')
      await proxy.restart('?role=admin,auditor')
      assert.equal((await get('/', bearer)).status, 403)
      await proxy.restart('?role=admin,user')
      assert.equal(seenBy(await get('/', bearer)).method, 'GET')
      await proxy.restart('?role=user&amr=mfa')
      assert.equal((await get('/', bearer)).status, 403)
      await proxy.restart('?roles=user')
      const { status, text } = await get('/', bearer)
      assert.ok(status >= 400, String(status))
      assert.doesNotMatch(text, /"method"/)
    })

    test('while the login service does not answer, the application is closed', async () => {
      await proxy.restart()
      await service.stop()
      const { status, text } = await get('/', { Authorization: `Bearer ${login.accessToken}` })
      assert.ok(status >= 500, String(status))
      assert.doesNotMatch(text, /"method"/)
    })
  })
}

function toFile(proxy: ProxyName, folder: string): string {
  if (proxy === 'Caddy') {
    return `{
        admin off
        auto_https disable_redirects
      }
      ${recipe('Caddy', 'caddy')}`
  }
  return nginxFile(folder, example('nginx.conf'))
}

/** `address` is that of the proxy, `service` and `application` are hosts with ports. */
async function createAuthProxy(
  proxy: ProxyName,
  { address, service, application }: { address: string; service: string; application: string },
) {
  const addresses = {
    'app.example.com {': `${address} {\ntls ${CERT_FILE} ${KEY_FILE}`,
    'app.example.com': 'localhost',
    '127.0.0.1:8443': service,
    '127.0.0.1:3000': application,
    'listen 443': `listen 127.0.0.1:${new URL(address).port}`,
    '/etc/nginx/app.pem': CERT_FILE,
    '/etc/nginx/app.key': KEY_FILE,
  }
  const folder = await makeRecipeFolder(addresses, CERT_FILE)
  const client = await createClient(address, '', CERT_FILE)
  let running: RunningProcess | null = null

  async function end(): Promise<void> {
    running?.kill('SIGTERM')
    await running?.exit
  }

  /** Ends it if it runs. With a query, each request is then verified with it. */
  async function restart(query = ''): Promise<void> {
    await end()
    const text = toFile(proxy, folder.path)
    await folder.write('proxy.conf', query ? text.replace(/(auth\/verify)\??/, `$1${query}`) : text)
    const command = [...PROXIES[proxy], join(folder.path, 'proxy.conf')]
    running = await startProxy(command, client, folder.path)
  }

  return {
    call: client.call,
    restart,
    async stop() {
      client.close()
      await end()
      await folder.remove()
    },
  }
}

/** Prints every request that it gets, also the first of a WebSocket. */
async function startApplication() {
  const server = createServer(async (request, response) => {
    let bytes = 0
    for await (const chunk of request) bytes += chunk.length
    response.end(toText(request, bytes))
  })
  server.on('upgrade', (request, socket) => {
    const switching =
      'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket'
    socket.write(`${switching}\r\n\r\n${toText(request, 0)}`)
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  return {
    host: `127.0.0.1:${(server.address() as AddressInfo).port}`,
    stop() {
      server.close()
      server.closeAllConnections()
    },
  }
}

function toText({ method, url, headersDistinct }: IncomingMessage, bytes: number): string {
  return JSON.stringify({ method, url, headers: headersDistinct, bytes })
}
