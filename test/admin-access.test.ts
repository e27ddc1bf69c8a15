// Which requests reach the admin API: only those with a valid token, on its own port.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { chmod, copyFile, mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { after, before, describe, test } from 'node:test'
import { promisify } from 'node:util'
import { ADMIN_ROUTES } from '../src/admin/api/app.ts'
import { createAdminToken } from '../src/identifiers.ts'
import { ADMIN, type AdminAnswer, type AdminService, startAdminService } from './admin-service.ts'
import { writeCertificate } from './certificates.ts'
import { scrape } from './metrics.ts'
import { freePort } from './postgres-server.ts'
import { until } from './process.ts'
import { countStatuses, createAddresses, PASSWORD } from './service.ts'
import { makeTemporaryFolder } from './temporary-folder.ts'

const run = promisify(execFile)
const EMAIL = 'ann@example.com'
const UNKNOWN_ID = '00000000-0000-4000-8000-000000000000'

/** Every route with its parameters filled in. */
const ROUTES = ADMIN_ROUTES.map(([method, url]) => ({
  method: String(method),
  path: url.replace(':user', EMAIL).replace(':id', UNKNOWN_ID),
}))

/** Node's client sends a body with these methods only. */
const bodyFor = (method: string) => (method.startsWith('P') ? {} : undefined)

// Access does not depend on the store, so one engine is enough.
describe('access to the admin API', () => {
  let service: AdminService
  let opsPort: number
  const newAddress = createAddresses()
  before(async () => {
    opsPort = await freePort()
    service = await startAdminService('sqlite', { OPS_PORT: String(opsPort) })
    await service.addUser(EMAIL)
  })
  after(async () => {
    await service.stop()
    assert.ok(!/lsadm_[\w-]/.test(service.logText()))
  })

  const statusOf = async (token: string | null, from = newAddress()) =>
    (await service.admin('GET', `/users/${EMAIL}/sessions`, undefined, { token, from })).status

  const newToken = async (role: 'read' | 'write') => {
    const token = createAdminToken()
    await service.setTokens({
      registration: { token: service.write, role: 'write' },
      'back-office': { token: service.read, role: 'read' },
      another: { token, role },
    })
    return token
  }

  for (const { method, path } of ROUTES) {
    test(`${method} ${path}: no, wrong, cut, revoked and session tokens get 401, and change nothing`, async () => {
      const revoked = await newToken('write')
      await newToken('write')
      const { accessToken } = (await service.login(EMAIL, PASSWORD)).json.data
      const { events } = (await service.admin('GET', '/audit')).json.data
      const refused = [null, '', 'x', service.write.slice(0, -1), `${service.write}x`]
      for (const token of [...refused, service.write.toUpperCase(), revoked, accessToken]) {
        const from = newAddress()
        const { status, json, headers } = await service.admin(
          method,
          path.slice(ADMIN.length),
          bodyFor(method),
          {
            token,
            from,
          },
        )
        assert.equal(status, 401, String(token))
        if (method !== 'HEAD') assert.equal(json.error.code, 'INVALID_TOKEN')
        const challenge = 'Bearer realm="login"'
        const expected = token === null ? challenge : `${challenge}, error="invalid_token"`
        assert.equal(headers['www-authenticate'], expected)
      }
      for (const Authorization of [
        service.write,
        `Basic ${Buffer.from(`x:${service.write}`).toString('base64')}`,
      ]) {
        const call = { token: null, headers: { Authorization }, from: newAddress() }
        const answer = await service.admin(method, path.slice(ADMIN.length), bodyFor(method), call)
        assert.equal(answer.status, 401)
      }
      assert.deepEqual((await service.admin('GET', '/audit')).json.data.events, events)
    })

    test(`${method} ${path}: a token that may only read ${method === 'GET' ? 'may use it' : 'gets 403'}`, async () => {
      const token = service.read
      const answer = await service.admin(method, path.slice(ADMIN.length), undefined, { token })
      if (method === 'GET') assert.equal(answer.status, 200)
      else {
        assert.equal(answer.status, 403)
        assert.equal(answer.json.error.code, 'FORBIDDEN')
      }
    })

    test(`${method} ${path}: nothing is there on the public port and the port of the health endpoints`, async () => {
      const headers = { Authorization: `Bearer ${service.write}` }
      const answer = await service.call({ method, path, headers })
      assert.equal(answer.status, 404)
      assert.equal(answer.json.error.code, 'NOT_FOUND')
      const ops = await fetch(`http://127.0.0.1:${opsPort}${path}`, { headers })
      assert.equal(ops.status, 404)
    })
  }

  test('nothing of the public service is on the admin port', async () => {
    for (const path of ['/', '/login', '/api/v1/auth/login', '/.well-known/jwks.json', '/livez']) {
      for (const method of ['GET', 'POST']) {
        const headers = { Authorization: `Bearer ${service.write}` }
        const answer = await service.admin(method, `${service.adminUrl}${path}`, undefined, {
          headers,
        })
        assert.equal(answer.status, 404, `${method} ${path}`)
      }
    }
  })

  test('without a token, addresses and methods that do not exist are not told apart from others', async () => {
    for (const [method, path] of [
      ['GET', '/nothing'],
      ['DELETE', '/users'],
      ['OPTIONS', '/users'],
      ['TRACE', '/audit'],
    ] as const) {
      const call = { token: null, from: newAddress() }
      assert.equal((await service.admin(method, path, undefined, call)).status, 401, path)
    }
  })

  test('an answer has the protective headers and a request id, and neither CORS headers nor cookies', async () => {
    const headers = { Origin: 'https://app.example.com', 'Sec-Fetch-Site': 'same-site' }
    const answer = await service.admin('GET', `/users/${EMAIL}/sessions`, undefined, { headers })
    assert.equal(answer.status, 200)
    const names = Object.keys(answer.headers)
    assert.deepEqual(
      names.filter(name => /^access-control|cookie|^x-csrf/.test(name)),
      [],
    )
    for (const name of ['x-request-id', 'strict-transport-security', 'content-security-policy']) {
      assert.ok(names.includes(name), name)
    }
    assert.equal(answer.headers['cache-control'], 'no-store')
    const preflight = { ...headers, 'Access-Control-Request-Method': 'PUT' }
    const options = await service.admin('OPTIONS', '/audit', undefined, { headers: preflight })
    assert.equal(options.status, 405)
    assert.equal(options.headers.allow, 'GET, HEAD')
  })

  test('the service listens with TLS only', async () => {
    const answer = await fetch(`${service.adminUrl.replace('https', 'http')}${ADMIN}/users`)
    assert.equal(answer.status, 400)
  })

  test('a token is refused from the moment of its revocation on, in the middle of hundreds of requests', async () => {
    const token = await newToken('read')
    type Sample = { startedMs: number; status: number }
    const samples: Sample[] = []
    let isOver = false
    const send = async () => {
      for (let sent = 0, from = newAddress(); !isOver; sent++) {
        // A client gets 401 for 20 failures only.
        if (sent % 10 === 9) from = newAddress()
        const startedMs = performance.now()
        const status = await statusOf(token, from)
        samples.push({ startedMs, status })
      }
    }
    const sending = Promise.all(Array.from({ length: 8 }, send))
    await until(async () => samples.length > 100)
    const earlier = [...samples]
    await service.setTokens({ registration: { token: service.write, role: 'write' } })
    const revokedMs = performance.now()
    const startedLater = () => samples.filter(({ startedMs }) => startedMs > revokedMs)
    await until(async () => startedLater().length > 100)
    isOver = true
    await sending
    const later = startedLater()
    // 429: the token is valid and has used up its requests.
    assert.ok(earlier.every(({ status }) => status === 200 || status === 429))
    assert.deepEqual(Object.keys(countStatuses(later)), ['401'])
  })

  test('a token is refused from its end on, and the metrics tell its end and count its reads', async () => {
    const token = createAdminToken()
    const expiresAt = new Date(service.now().getTime() + 3_600_000)
    await service.setTokens({
      registration: { token: service.write, role: 'write' },
      ending: { token, role: 'read', expiresAt },
    })
    const from = newAddress()
    assert.equal(await statusOf(token, from), 200)
    const series = await scrape(opsPort)
    assert.equal(series.get('admin_reads_total{token="ending"}'), 1)
    const endOf = (name: string) =>
      series.get(`admin_token_expiry_timestamp_seconds{token="${name}"}`)
    assert.equal(endOf('ending'), expiresAt.getTime() / 1000)
    assert.equal(endOf('registration'), undefined)

    service.advance(expiresAt.getTime() - service.now().getTime() + 1)
    const known = service.logged().length
    assert.equal(await statusOf(token, from), 401)
    assert.equal(await statusOf(service.write, from), 200)
    const isLogged = ({ event, reason, tokenName }: Record<string, unknown>) =>
      event === 'admin.refused' && reason === 'expired-token' && tokenName === 'ending'
    await until(async () => service.logged().slice(known).some(isLogged))
    assert.equal((await scrape(opsPort)).get('admin_reads_total{token="ending"}'), 1)
  })

  test('while the file of tokens cannot be used, every token is refused, this is logged, and the service goes on', async () => {
    const { tokensFile: file } = service
    const good = await newToken('read')
    const aside = `${file}.aside`
    const REPLACEMENTS: [name: string, replace: () => Promise<unknown>, reason: RegExp][] = [
      ['nothing', async () => {}, /ENOENT/],
      ['garbage', () => writeFile(file, '\0{garbage'), /not JSON/],
      ['an empty file', () => writeFile(file, ''), /not JSON/],
      ['half a file', async () => writeFile(file, (await readFile(aside)).subarray(0, 99)), /JSON/],
      ['a FIFO', () => run('mkfifo', [file]), /not a file/],
      ['a folder', () => mkdir(file), /not a file/],
      ['a link to itself', () => run('ln', ['-s', file, file]), /ELOOP/],
      ['a link to a device', () => run('ln', ['-s', '/dev/zero', file]), /not a file/],
      [
        'a file that others can read',
        async () => {
          await copyFile(aside, file)
          await chmod(file, 0o644)
        },
        /chmod 600/,
      ],
      ['a large file', () => writeFile(file, ' '.repeat(10_000_000)), /more than 65536 bytes/],
    ]
    for (const [name, replace, reason] of REPLACEMENTS) {
      assert.equal(await statusOf(good), 200, name)
      const known = service.logged().length
      const from = newAddress()
      await rename(file, aside)
      await replace()
      // More than the failures that a client may have, at least once.
      const length = name === 'nothing' ? 30 : 3
      const statuses = await Promise.all(Array.from({ length }, () => statusOf(good, from)))
      assert.deepEqual(countStatuses(statuses.map(status => ({ status }))), { 401: length }, name)
      const lines = service.logged().slice(known)
      const faults = lines.filter(({ event }) => event === 'admin.tokens_unusable')
      assert.ok(
        faults.some(line => line.level === 'error' && reason.test(String(line.reason))),
        name,
      )
      assert.equal((await service.login(EMAIL, PASSWORD)).status, 200)
      await rm(file, { recursive: true, force: true })
      await rename(aside, file)
      // These refusals are not counted as failures of the client.
      assert.equal(await statusOf(good, from), 200, name)
    }
  })

  test('a file is refused while others can read or change it', async () => {
    const { tokensFile: file } = service
    const token = await newToken('read')
    // Twice at once: the second look could be at a version that is known.
    for (const mode of [0o604, 0o602, 0o644, 0o666, 0o604]) {
      assert.equal(await statusOf(token), 200)
      await chmod(file, mode)
      assert.equal(await statusOf(token), 401, mode.toString(8))
      assert.equal(await statusOf(token), 401, mode.toString(8))
      await chmod(file, 0o600)
    }
    assert.equal(await statusOf(token), 200)
  })

  test('a file that is written in place again and again, without a new size, is noticed each time', async () => {
    const { tokensFile: file } = service
    const [one, other] = [await newToken('read'), '']
    const withOne = await readFile(file, 'utf8')
    assert.equal(await statusOf(other), 401)
    const withoutOne = withOne.replace(
      /"digest": "(.)/g,
      (_, digit: string) => `"digest": "${digit === '0' ? '1' : '0'}`,
    )
    for (let i = 0; i < 20; i++) {
      await writeFile(file, withoutOne)
      assert.equal(await statusOf(one), 401)
      await writeFile(file, withOne)
      assert.equal(await statusOf(one), 200)
    }
  })

  test('after 20 refused tokens in a minute a client gets 429; valid tokens and other clients do not', async () => {
    const token = await newToken('read')
    const from = newAddress()
    for (let i = 0; i < 20; i++) assert.equal(await statusOf('guess', from), 401)
    const limited = await service.admin('GET', '/audit', undefined, { token: 'guess', from })
    assert.equal(limited.status, 429)
    assert.equal(limited.json.error.code, 'TOO_MANY_REQUESTS')
    const seconds = Number(limited.headers['retry-after'])
    assert.ok(seconds >= 1 && seconds <= 60)
    assert.equal(await statusOf(token, from), 200)
    assert.equal(await statusOf('guess'), 401)
  })

  test('a token has 200 requests at once; another token is not affected', async () => {
    const token = await newToken('read')
    const startedMs = performance.now()
    const answers: AdminAnswer[] = []
    const send = async () => {
      for (let i = 0; i < 10; i++) {
        answers.push(await service.admin('GET', '/audit?limit=1', undefined, { token }))
      }
    }
    await Promise.all(Array.from({ length: 50 }, send))
    const seconds = (performance.now() - startedMs) / 1000
    const counts = countStatuses(answers)
    const accepted = counts[200] ?? 0
    assert.ok(accepted >= 200 && accepted <= 201 + 100 * seconds, JSON.stringify(counts))
    assert.equal(accepted + (counts[429] ?? 0), 500)
    for (const { status, headers } of answers) {
      if (status === 429) assert.equal(headers['retry-after'], '1')
    }
    assert.equal(await statusOf(service.read), 200)
    const lines = service.logged().filter(({ reason }) => reason === 'limit')
    assert.ok(lines.length < 50)
    assert.ok(lines.every(({ tokenName }) => tokenName === 'another'))
  })
})

test('beside a TLS proxy the admin API takes the address and the TLS of the connection, whatever is forwarded, and the public port stays plain', async t => {
  const folder = await makeTemporaryFolder('login-admin-proxy-')
  const { TLS_CERT_FILE, TLS_KEY_FILE } = await writeCertificate(folder, 'valid')
  const service = await startAdminService('sqlite', {
    TRUST_PROXY: '127.0.0.1',
    ADMIN_TLS_CERT_FILE: TLS_CERT_FILE,
    ADMIN_TLS_KEY_FILE: TLS_KEY_FILE,
  })
  t.after(async () => {
    await service.stop()
    await rm(folder, { recursive: true })
  })
  const email = 'proxied@example.com'
  await service.addUser(email)
  const forwarded = { 'X-Forwarded-For': '203.0.113.9', 'X-Forwarded-Proto': 'https' }
  const body = { email, password: PASSWORD }
  assert.equal((await service.call({ body, headers: forwarded })).status, 200)
  assert.match(service.url, /^http:/)
  for (const headers of [
    {},
    { 'X-Forwarded-For': '203.0.113.9' },
    { 'X-Forwarded-Proto': 'http' },
    { 'X-Forwarded-Proto': 'https', 'X-Forwarded-For': '203.0.113.9' },
    { 'X-Forwarded-Proto': 'https', 'X-Forwarded-For': 'nonsense' },
  ]) {
    const answer = await service.admin('DELETE', `/users/${email}/sessions`, undefined, { headers })
    assert.equal(answer.status, 200, JSON.stringify(headers))
    const { events } = (await service.admin('GET', `/audit?target=${email}&limit=1`)).json.data
    assert.deepEqual(events[0]?.by, { kind: 'token', name: 'registration', host: '127.0.0.1' })
  }
  const lines = service.logged().filter(({ event }) => event === 'admin.request')
  assert.deepEqual(new Set(lines.map(({ ip }) => ip)), new Set(['127.0.0.1']))
})
