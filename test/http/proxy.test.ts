import assert from 'node:assert/strict'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { loadConfig } from '../../src/config/config.ts'
import { loadTls } from '../../src/http/connection/tls.ts'
import { namesOf, scrape } from '../support/metrics.ts'
import { freePort } from '../support/postgres-server.ts'
import { loggedBy, PASSWORD, startTestService, type TestService } from '../support/service.ts'

const CLIENT = '203.0.113.9'
const FORWARDED = { 'X-Forwarded-Proto': 'https', 'X-Forwarded-For': CLIENT }
const HTTPS_REQUIRED = {
  success: false,
  error: { code: 'HTTPS_REQUIRED', message: 'This service answers over HTTPS only' },
}

const forwardedLogin = (service: TestService, email: string, headers: Record<string, string>) =>
  service.call({ body: { email, password: PASSWORD }, headers })

describe('behind a TLS proxy', () => {
  let service: TestService
  let opsPort: number
  before(async () => {
    opsPort = await freePort()
    service = await startTestService('sqlite', {
      OPS_PORT: String(opsPort),
      TRUST_PROXY: '127.0.0.1/32, 127.0.1.0/24, 10.0.0.0/8',
    })
    await service.addUser('kate@example.com')
  })
  after(() => service.stop())

  test('the service listens in plain HTTP and makes no certificate', async () => {
    assert.match(service.url, /^http:/)
    await assert.rejects(readFile(join(service.dataDir, 'development-cert.pem')), {
      code: 'ENOENT',
    })
  })

  test('the metrics have no certificate: an expiry of 0 would raise the alarm', async () => {
    const names = namesOf(await scrape(opsPort))
    assert.ok(!names.has('tls_certificate_expiry_timestamp_seconds'))
  })

  const ANSWERED: [what: string, headers: Record<string, string>, ip: string][] = [
    ['a forwarded request', FORWARDED, CLIENT],
    [
      'a request through two proxies',
      { ...FORWARDED, 'X-Forwarded-For': `${CLIENT}, 10.0.0.2` },
      CLIENT,
    ],
    [
      'a request with a forged address',
      { ...FORWARDED, 'X-Forwarded-For': `127.0.0.1, ${CLIENT}` },
      CLIENT,
    ],
    ['an address with a port', { ...FORWARDED, 'X-Forwarded-For': `${CLIENT}:4711` }, CLIENT],
    ['an IPv6 client', { ...FORWARDED, 'X-Forwarded-For': '[2001:DB8::1]:443' }, '2001:db8::1'],
    ['a scheme in capitals', { ...FORWARDED, 'X-Forwarded-Proto': 'HTTPS' }, CLIENT],
    [
      'HTTPS as the right-most scheme',
      { ...FORWARDED, 'X-Forwarded-Proto': 'http, https' },
      CLIENT,
    ],
  ]
  for (const [what, headers, ip] of ANSWERED) {
    test(`${what} is answered, and logged with the client's own address`, async () => {
      const lines = await loggedBy(service, async () => {
        assert.equal((await forwardedLogin(service, 'kate@example.com', headers)).status, 200)
      })
      assert.deepEqual(
        lines.map(line => [line.event, line.ip]),
        [['login.succeeded', ip]],
      )
    })
  }

  const REFUSED: [what: string, headers: Record<string, string>, from?: string][] = [
    ['no X-Forwarded-Proto', { 'X-Forwarded-For': CLIENT }],
    ['plain HTTP', { ...FORWARDED, 'X-Forwarded-Proto': 'http' }],
    ['http as the right-most scheme', { ...FORWARDED, 'X-Forwarded-Proto': 'https, http' }],
    ['an empty scheme', { ...FORWARDED, 'X-Forwarded-Proto': '' }],
    ['an empty right-most scheme', { ...FORWARDED, 'X-Forwarded-Proto': 'https,' }],
    ['another scheme', { ...FORWARDED, 'X-Forwarded-Proto': 'httpsx' }],
    [
      'another header that claims HTTPS',
      { ...FORWARDED, 'X-Forwarded-Proto': '', 'X-Forwarded-Ssl': 'on' },
    ],
    ['a peer that is not the proxy', FORWARDED, '127.0.0.2'],
  ]
  // Each through another proxy: repeated refusals of one address are counted instead of logged.
  for (const [index, [what, headers, from = `127.0.1.${index}`]] of REFUSED.entries()) {
    test(`403 HTTPS_REQUIRED for ${what}, without a redirect or a login`, async () => {
      const body = { email: 'kate@example.com', password: PASSWORD }
      const lines = await loggedBy(service, async () => {
        const answer = await service.call({ body, headers, from })
        assert.equal(answer.status, 403)
        assert.deepEqual(answer.json, HTTPS_REQUIRED)
        assert.equal(answer.headers.location, undefined)
      })
      assert.deepEqual(
        lines.map(line => [line.event, line.ip]),
        [['request.refused', from]],
      )
    })
  }

  test('a preflight gets the refusals that its POST would get', async () => {
    const preflight = { Origin: 'http://localhost:3000', 'Access-Control-Request-Method': 'POST' }
    const CASES: [status: number, headers: Record<string, string>][] = [
      [204, FORWARDED],
      [403, { ...FORWARDED, 'X-Forwarded-Proto': 'http' }],
      [417, { ...FORWARDED, Expect: 'more' }],
      [500, { 'X-Forwarded-Proto': 'https' }],
    ]
    for (const [status, own] of CASES) {
      const answer = await service.call({ method: 'OPTIONS', headers: { ...preflight, ...own } })
      assert.equal(answer.status, status)
      assert.equal(answer.headers['access-control-allow-origin'], preflight.Origin)
      assert.equal('access-control-allow-methods' in answer.headers, status === 204)
    }
  })

  for (const [what, value, from] of [
    ['no', undefined, '127.0.1.100'],
    ['an empty', '', '127.0.1.101'],
    ['an unusable', 'unknown', '127.0.1.102'],
  ] as const) {
    test(`500 and an error line for ${what} X-Forwarded-For`, async () => {
      const headers = {
        'X-Forwarded-Proto': 'https',
        ...(value !== undefined && { 'X-Forwarded-For': value }),
      }
      const lines = await loggedBy(service, async () => {
        const body = { email: 'kate@example.com', password: PASSWORD }
        const answer = await service.call({ body, headers, from })
        assert.equal(answer.status, 500)
        assert.equal(answer.json.error.code, 'INTERNAL_ERROR')
        assert.doesNotMatch(answer.text, /proxy|forwarded/i)
      })
      assert.equal(lines.length, 1)
      assert.equal(lines[0]?.level, 'error')
      assert.match(String(lines[0]?.msg), /X-Forwarded-For/)
    })
  }
})

describe('with a certificate and a proxy', () => {
  let service: TestService
  let folder: string
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'login-transport-'))
    await loadTls(loadConfig({ DATA_DIR: folder }), new Date())
    service = await startTestService('sqlite', {
      TRUST_PROXY: '127.0.0.1',
      TLS_CERT_FILE: join(folder, 'development-cert.pem'),
      TLS_KEY_FILE: join(folder, 'development-key.pem'),
    })
    await service.addUser('kate@example.com')
  })
  after(async () => {
    await service.stop()
    await rm(folder, { recursive: true })
  })

  const CALLS: [
    caller: string,
    from: string,
    headers: Record<string, string>,
    status: number,
    ip: string,
  ][] = [
    ['the proxy', '127.0.0.1', FORWARDED, 200, CLIENT],
    [
      'the proxy about a plain request',
      '127.0.0.1',
      { 'X-Forwarded-For': CLIENT },
      403,
      '127.0.0.1',
    ],
    ['a direct caller', '127.0.0.2', {}, 200, '127.0.0.2'],
    ['a direct caller that sends the headers of a proxy', '127.0.0.2', FORWARDED, 200, '127.0.0.2'],
  ]
  for (const [caller, from, headers, status, ip] of CALLS) {
    test(`${caller} gets ${status} over TLS and is logged as ${ip}`, async () => {
      assert.match(service.url, /^https:/)
      const body = { email: 'kate@example.com', password: PASSWORD }
      const lines = await loggedBy(service, async () => {
        assert.equal((await service.call({ body, headers, from })).status, status)
      })
      assert.deepEqual(
        lines.map(line => line.ip),
        [ip],
      )
    })
  }
})
