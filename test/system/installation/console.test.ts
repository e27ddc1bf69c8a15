// Runs the recipes of nginx and Caddy for the console.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { request } from 'node:https'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { after, describe, test } from 'node:test'
import { parseEnv } from 'node:util'
import { checkConfiguration } from '../../../src/cli/doctor/configuration.ts'
import { loadConfig } from '../../../src/config/config.ts'
import { writeCertificate } from '../../support/certificates.ts'
import { startConsole } from '../../support/console.ts'
import { own, ownFolder } from '../../support/own.ts'
import { freePort } from '../../support/postgres-server.ts'
import { PROJECT } from '../../support/process.ts'
import { recipe } from '../../support/recipes.ts'
import { createClient, loggedBy, PASSWORD } from '../../support/service.ts'
import { createVisitor, refreshIn, textIn } from '../../support/visitor.ts'
import { nginxFile, PROXIES, type ProxyName, startProxy } from '../proxy.ts'

const CERT_FILE = join(process.env.TEST_TEMPLATES ?? '', 'development-cert.pem')
const KEY_FILE = CERT_FILE.replace('cert.pem', 'key.pem')
const FILES = { nginx: 'console-nginx.conf', Caddy: 'console.Caddyfile' }
const FORGED = { 'X-Forwarded-For': '203.0.113.9', 'X-Forwarded-Proto': 'http' }
/** Beyond 127.0.0.0/29, which stands for the network of the recipes. */
const OUTSIDE = '127.0.0.9'

test('the settings of docs/operations.md are safe ones in production', () => {
  const document = readFileSync(join(PROJECT, 'docs/operations.md'), 'utf8')
  const settings = recipe('The console behind a proxy', 'sh', 0, document)
  const service = readFileSync(join(PROJECT, 'deploy/login-service.env'), 'utf8')
  const config = loadConfig(parseEnv(service + settings))
  const { state } = checkConfiguration(config).find(({ check }) => check === 'console') ?? {}
  assert.deepEqual([config.warnings, state], [[], 'ok'])
})

for (const name of ['nginx', 'Caddy'] as const) {
  describe(`the console behind ${name}`, async () => {
    const origin = await freeOrigin()
    const env = { ADMIN_ORIGIN: origin, ADMIN_TRUST_PROXY: '127.0.0.1' }
    const service = await own(startConsole('sqlite', env))
    const proxy = await startRecipe(name, origin, service.adminUrl)
    const admin = await service.newPerson('admin')
    const kate = await service.newPerson('user')
    const page = `/console/people/${kate.id}`
    const visitor = (from: string) => createVisitor(proxy, from)
    const visitorIn = async (from: string) => {
      const visiting = visitor(from)
      assert.equal((await visiting.logIn(admin.email)).status, 303)
      return visiting
    }

    test('a person logs in, finds and unlocks another one; log and audit have the address of the browser', async () => {
      const until = new Date(service.now().getTime() + 3_600_000)
      const locked = await service.admin('PUT', `/users/${kate.id}/lock`, { until })
      assert.equal(locked.status, 200)
      const lines = await loggedBy(service, async () => {
        const visiting = await visitorIn('127.0.0.2')
        const found = await visiting.get('/console/people?search=new-user&state=locked', FORGED)
        assert.ok(found.text.includes(page))
        const unlocked = await visiting.submit(await visiting.get(page), `${page}/unlock`)
        assert.equal(textIn(unlocked, 'verdict'), `${kate.email} can log in.`)
      })
      assert.ok(lines.length > 3)
      for (const { ip } of lines) assert.equal(ip, '127.0.0.2')
      const { events } = (await service.admin('GET', '/audit')).json.data
      const by = { kind: 'person', id: admin.id, name: admin.email, host: '127.0.0.2' }
      for (const action of ['user.unlocked', 'users.read']) {
        assert.deepEqual(events.find(event => event.action === action)?.by, by)
      }
    })

    test('failures of one address let others log in, also with an address of the client’s own choice', async () => {
      const guess = (from: string, password: string) =>
        visitor(from).post('/login', { email: admin.email, password }, FORGED)
      for (let i = 0; i < 5; i++) assert.equal((await guess('127.0.0.3', 'wrong')).status, 401)
      assert.equal((await guess('127.0.0.3', PASSWORD)).status, 429)
      assert.equal((await guess('127.0.0.4', PASSWORD)).status, 303)
    })

    test('a link of another site leads to the page', async () => {
      const visiting = await visitorIn('127.0.0.2')
      const linked = await visiting.get(page, { 'Sec-Fetch-Site': 'cross-site' })
      const again = await visiting.get(refreshIn(linked) ?? '')
      assert.match(again.text, /<h2 id="verdict">/)
    })

    test('the admin API is not reached, however its address is written', async () => {
      const headers = { Authorization: `Bearer ${service.write}`, Accept: 'text/html' }
      for (const path of [
        ...['/admin/v1/users', '/openapi.json', '/docs', '/consoles', '/api/v1/auth/login'],
        ...['//admin/v1/users', '/%61dmin/v1/users', '/./admin/v1/users', '/admin/v1/users?/login'],
        ...['/console/../admin/v1/users', '/login/%2e%2e/admin/v1/users', '/admin/v1/users#/login'],
        ...['/console/..%2fadmin/v1/users', '/assets%2f..%2fadmin/v1/users', '/login/..;/docs'],
        ...['/admin/v1/users/..%2f..%2f..%2fconsole', '/docs/%2e%2e/console', '/docs/../login'],
      ]) {
        const { status, body } = await proxy.send(path, headers)
        assert.ok(status < 500, `${path}: ${status}`)
        // Every answer of the API has it, also a refusal.
        assert.doesNotMatch(body, /"success"|"openapi"|Admin API/, path)
      }
    })

    test('other networks reach nothing', async () => {
      for (const path of ['/', '/login', '/console/people']) {
        const { status, text } = await visitor(OUTSIDE).get(path)
        assert.equal(status, name === 'nginx' ? 403 : 404)
        assert.doesNotMatch(text, /<form/)
      }
    })

    test('programs call the API at the port, with the address of their connection', async () => {
      for (const from of ['127.0.0.1', '127.0.0.5']) {
        const headers = { ...FORGED, 'X-Forwarded-Proto': 'https' }
        const until = new Date(service.now().getTime() + 3_600_000)
        const call = { headers, from }
        for (const [method, body] of [['PUT', { until }], ['DELETE']] as const) {
          const { status } = await service.admin(method, `/users/${kate.id}/lock`, body, call)
          assert.equal(status, 200)
        }
        const [event] = (await service.admin('GET', '/audit?limit=1')).json.data.events
        assert.deepEqual(event?.by, { kind: 'token', name: 'registration', host: from })
      }
    })

    test('a certificate that is not the right one is not accepted', async () => {
      const { TLS_CERT_FILE: file } = await writeCertificate(await ownFolder(), 'other')
      // Waits for this answer.
      await startRecipe(name, await freeOrigin(), service.adminUrl, { certFile: file, status: 502 })
    })

    // The last test: it ends the service.
    test('no log of the proxy has a query, also if the service does not answer', async () => {
      const visiting = await visitorIn('127.0.0.2')
      assert.equal((await visiting.get('/console/people?search=needle')).status, 200)
      await service.stop()
      assert.equal((await visiting.get('/console/people?search=needle')).status, 502)
      const logs = proxy.logs()
      if (name === 'nginx') assert.match(logs, /127\.0\.0\.2 \[.*\] GET \/console\/people 200\n/)
      else assert.match(logs, /"uri":"\/console\/people"/)
      assert.doesNotMatch(logs, /needle|search/)
    })
  })
}

async function freeOrigin(): Promise<string> {
  return `https://localhost:${await freePort()}`
}

/** `certFile`: the certificate that it expects of the service. `status`: of the login page through it. */
async function startRecipe(
  name: ProxyName,
  origin: string,
  adminUrl: string,
  { certFile = CERT_FILE, status = 200 } = {},
) {
  const folder = await ownFolder()
  const { port } = new URL(origin)
  const etc = `/etc/${name.toLowerCase()}`
  const places = {
    '\n{\n': '\n{\nadmin off\nauto_https disable_redirects\n',
    'console.example.com {': `${origin} {`,
    'console.example.com': 'localhost',
    'listen 443': `listen 127.0.0.1:${port}`,
    'listen [::]:443 ssl http2;': '',
    '127.0.0.1:8444': new URL(adminUrl).host,
    '10.0.0.0/8': '127.0.0.0/29',
    '/var/log/nginx': folder,
    [`${etc}/console.pem`]: CERT_FILE,
    [`${etc}/console.key`]: KEY_FILE,
    [`${etc}/console-ca.pem`]: certFile,
  }
  let file = readFileSync(join(PROJECT, 'deploy', FILES[name]), 'utf8')
  for (const [printed, real] of Object.entries(places)) file = file.replaceAll(printed, real)
  const path = join(folder, 'proxy.conf')
  writeFileSync(path, name === 'nginx' ? nginxFile(folder, file) : file)
  const client = await createClient(origin, '', CERT_FILE)
  after(client.close)
  const running = await startProxy([...PROXIES[name], path], client, folder, status)
  return {
    call: client.call,
    /** The address as it is given, which `call` would tidy up. */
    async send(path: string, headers: Record<string, string>) {
      const options = { host: 'localhost', port, path, headers, rejectUnauthorized: false }
      const [answer] = await once(request(options).end(), 'response')
      return { status: Number(answer.statusCode), body: await text(answer) }
    },
    logs: () =>
      ['console.log', 'console-error.log', 'error.log']
        .map(name => join(folder, name))
        .filter(file => existsSync(file))
        .map(file => readFileSync(file, 'utf8'))
        .join('') + running.output(),
  }
}
