import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { writeCertificate } from '../support/certificates.ts'
import { namesOf, scrape } from '../support/metrics.ts'
import { own, ownFolder } from '../support/own.ts'
import { freePort } from '../support/postgres-server.ts'
import { loggedBy, PASSWORD, startTestService } from '../support/service.ts'

const CLIENT = '203.0.113.9'
const FORWARDED = { 'X-Forwarded-Proto': 'https', 'X-Forwarded-For': CLIENT }
const HTTPS_REQUIRED = {
  success: false,
  error: { code: 'HTTPS_REQUIRED', message: 'This service answers over HTTPS only' },
}
const body = { email: 'kate@example.com', password: PASSWORD }

type Headers = Record<string, string>

describe('behind a TLS proxy', async () => {
  const opsPort = String(await freePort())
  const TRUST_PROXY = '127.0.0.1/32, 127.0.1.0/24, 10.0.0.0/8'
  const service = await own(startTestService('sqlite', { OPS_PORT: opsPort, TRUST_PROXY }))
  await service.addUser(body.email)

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

  // src/http/request/client-address.test.ts has more addresses.
  const ANSWERED: [what: string, headers: Headers, ip?: string][] = [
    ['a forwarded request', {}],
    ['a request through two proxies', { 'X-Forwarded-For': `127.0.0.1, ${CLIENT}:4711, 10.0.0.2` }],
    ['an IPv6 client', { 'X-Forwarded-For': '[2001:DB8::1]:443' }, '2001:db8::1'],
    ['a scheme in capitals', { 'X-Forwarded-Proto': 'HTTPS' }],
    ['HTTPS as the right-most scheme', { 'X-Forwarded-Proto': 'http, https' }],
  ]
  for (const [what, headers, ip = CLIENT] of ANSWERED) {
    test(`${what} is answered, and logged with the client's own address`, async () => {
      const lines = await loggedBy(service, async () => {
        const { status } = await service.call({ body, headers: { ...FORWARDED, ...headers } })
        assert.equal(status, 200)
      })
      assert.deepEqual(
        lines.map(line => [line.event, line.ip]),
        [['login.succeeded', ip]],
      )
    })
  }

  const REFUSED: [what: string, headers: Headers, from?: string][] = [
    ['no X-Forwarded-Proto', { 'X-Forwarded-For': CLIENT }],
    ['plain HTTP', { ...FORWARDED, 'X-Forwarded-Proto': 'http' }],
    ['http as the right-most scheme', { ...FORWARDED, 'X-Forwarded-Proto': 'https, http' }],
    ['an empty scheme', { ...FORWARDED, 'X-Forwarded-Proto': '' }],
    ['an empty right-most scheme', { ...FORWARDED, 'X-Forwarded-Proto': 'https,' }],
    ['another scheme', { ...FORWARDED, 'X-Forwarded-Proto': 'httpsx' }],
    ['another header that claims HTTPS', { 'X-Forwarded-For': CLIENT, 'X-Forwarded-Ssl': 'on' }],
    ['a peer that is not the proxy', FORWARDED, '127.0.0.2'],
  ]
  // Each through another proxy: repeated refusals of one address are counted instead of logged.
  for (const [index, [what, headers, from = `127.0.1.${index}`]] of REFUSED.entries()) {
    test(`403 HTTPS_REQUIRED for ${what}, without a redirect or a login`, async () => {
      const lines = await loggedBy(service, async () => {
        const answer = await service.call({ body, headers, from })
        assert.deepEqual([answer.status, answer.json], [403, HTTPS_REQUIRED])
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
    const CASES: [status: number, headers: Headers][] = [
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

  const UNUSABLE: Headers[] = [{}, { 'X-Forwarded-For': '' }, { 'X-Forwarded-For': 'unknown' }]
  for (const [index, header] of UNUSABLE.entries()) {
    test(`500 and an error line for the address ${JSON.stringify(header)}`, async () => {
      const headers = { 'X-Forwarded-Proto': 'https', ...header }
      const lines = await loggedBy(service, async () => {
        const answer = await service.call({ body, headers, from: `127.0.1.${100 + index}` })
        assert.equal(answer.status, 500)
        assert.equal(answer.json.error.code, 'INTERNAL_ERROR')
        assert.doesNotMatch(answer.text, /proxy|forwarded/i)
      })
      assert.deepEqual(
        lines.map(({ level }) => level),
        ['error'],
      )
      assert.match(String(lines[0]?.msg), /X-Forwarded-For/)
    })
  }
})

describe('with a certificate and a proxy', async () => {
  const files = await writeCertificate(await ownFolder(), 'tls')
  const service = await own(startTestService('sqlite', { TRUST_PROXY: '127.0.0.1', ...files }))
  await service.addUser(body.email)

  const CALLS: [caller: string, from: string, headers: Headers, status: number, ip: string][] = [
    ['the proxy', '127.0.0.1', FORWARDED, 200, CLIENT],
    ['the proxy about plain HTTP', '127.0.0.1', { 'X-Forwarded-For': CLIENT }, 403, '127.0.0.1'],
    ['a direct caller', '127.0.0.2', {}, 200, '127.0.0.2'],
    ['one with headers of a proxy', '127.0.0.2', FORWARDED, 200, '127.0.0.2'],
  ]
  for (const [caller, from, headers, status, ip] of CALLS) {
    test(`${caller} gets ${status} over TLS and is logged as ${ip}`, async () => {
      assert.match(service.url, /^https:/)
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
