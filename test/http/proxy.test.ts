import assert from 'node:assert/strict'
import { once } from 'node:events'
import { readdir } from 'node:fs/promises'
import { connect } from 'node:net'
import { describe, test } from 'node:test'
import { writeCertificate } from '../support/certificates.ts'
import { namesOf, scrape } from '../support/metrics.ts'
import { inParallel, own, ownFolder } from '../support/own.ts'
import { freePort } from '../support/postgres-server.ts'
import { until } from '../support/process.ts'
import {
  LOGIN,
  loggedBy,
  PASSWORD,
  startTestService,
  type TestService,
} from '../support/service.ts'

const CLIENT = '203.0.113.9'
const FORWARDED = { 'X-Forwarded-Proto': 'https', 'X-Forwarded-For': CLIENT }
const body = { email: 'kate@example.com', password: PASSWORD }

/** With the address of the client in its log line. */
type Case = [what: string, headers: Record<string, string>, ip: string, from?: string]

const OUTCOMES = {
  200: { event: 'login.succeeded', level: 'info', code: undefined },
  403: { event: 'request.refused', level: 'warn', code: 'HTTPS_REQUIRED' },
  500: { event: 'request.failed', level: 'error', code: 'INTERNAL_ERROR' },
}

function testCases(service: TestService, status: keyof typeof OUTCOMES, cases: Case[]): void {
  const { code, ...expected } = OUTCOMES[status]
  for (const [what, headers, ip, from = '127.0.0.1'] of cases) {
    test(`${what}: ${status}, in one line with the address ${ip}`, async () => {
      const lines = await loggedBy(service, async () => {
        const answer = await service.call({ body, headers, from })
        assert.deepEqual([answer.status, answer.json.error?.code], [status, code])
        if (status === 403) assert.match(answer.text, /"This service answers over HTTPS only"/)
        assert.equal(answer.headers.location, undefined)
        assert.doesNotMatch(answer.text, /proxy|forwarded/i)
      })
      assert.equal(lines.length, 1)
      assert.partialDeepStrictEqual(lines, [{ ...expected, ip }])
      if (status === 500) assert.match(String(lines[0]?.msg), /X-Forwarded-For/)
    })
  }
}

describe('behind a TLS proxy', async () => {
  const opsPort = String(await freePort())
  const TRUST_PROXY = '127.0.0.1/32, 127.0.1.0/24, 10.0.0.0/8'
  const service = await own(startTestService('sqlite', { OPS_PORT: opsPort, TRUST_PROXY }))
  await service.addUser(body.email)

  test('the service listens in plain HTTP and makes no certificate', async () => {
    assert.match(service.url, /^http:/)
    assert.ok(!(await readdir(service.dataDir)).includes('development-cert.pem'))
    // An expiry of 0 would raise the alarm.
    const names = namesOf(await scrape(opsPort))
    assert.ok(!names.has('tls_certificate_expiry_timestamp_seconds'))
  })

  test('300 half-sent bodies of one client do not shut out others, and the log names the client', async () => {
    const { hostname, port } = new URL(service.url)
    const head = Object.entries({ ...FORWARDED, Host: 'localhost', 'Content-Length': 10 })
      .map(([name, value]) => `${name}: ${value}`)
      .join('\r\n')
    const sockets = await inParallel(300, async () => {
      const socket = connect(Number(port), hostname).on('error', () => {})
      await once(socket, 'connect')
      socket.write(`POST ${LOGIN} HTTP/1.1\r\n${head}\r\n\r\nhalf`)
      return socket
    })
    const limited = () => service.logged().find(({ event }) => event === 'connection.limited')
    await until(async () => limited() !== undefined)
    assert.partialDeepStrictEqual(limited(), { ip: CLIENT, limit: 'client', result: 'closed' })
    const headers = { ...FORWARDED, 'X-Forwarded-For': '203.0.113.10' }
    assert.equal((await service.call({ body, headers })).status, 200)
    for (const socket of sockets) socket.destroy()
  })

  const forwarded = (proto: string) => ({ ...FORWARDED, 'X-Forwarded-Proto': proto })
  const from = (addresses: string) => ({ ...FORWARDED, 'X-Forwarded-For': addresses })
  // src/http/request/client-address.test.ts has more addresses.
  testCases(service, 200, [
    ['a forwarded request', FORWARDED, CLIENT],
    ['a request through two proxies', from(`127.0.0.1, ${CLIENT}:4711, 10.0.0.2`), CLIENT],
    ['an IPv6 client', from('[2001:DB8::1]:443'), '2001:db8::1'],
    ['a scheme in capitals', forwarded('HTTPS'), CLIENT],
    ['HTTPS as the right-most scheme', forwarded('http, https'), CLIENT],
  ])
  const REFUSED: [what: string, headers: Record<string, string>, from?: string][] = [
    ['no X-Forwarded-Proto', { 'X-Forwarded-For': CLIENT }],
    ['plain HTTP', forwarded('http')],
    ['http as the right-most scheme', forwarded('https, http')],
    ['an empty scheme', forwarded('')],
    ['an empty right-most scheme', forwarded('https,')],
    ['another scheme', forwarded('httpsx')],
    ['another header that claims HTTPS', { 'X-Forwarded-For': CLIENT, 'X-Forwarded-Ssl': 'on' }],
    ['a peer that is not the proxy', FORWARDED, '127.0.0.2'],
  ]
  test('failures of one client behind a NAT64 do not stop the others', async () => {
    const attempt = async (client: string, password = PASSWORD) => {
      const headers = from(`64:ff9b::${client}`)
      return (await service.call({ body: { ...body, password }, headers })).status
    }
    for (let i = 0; i < 5; i++) assert.equal(await attempt('198.51.100.1', 'wrong'), 401)
    assert.equal(await attempt('198.51.100.1'), 429)
    assert.equal(await attempt('198.51.100.2'), 200)
  })

  // Each through another proxy: repeated refusals of one address are counted instead of logged.
  const throughOthers = REFUSED.map(([what, headers, peer], index): Case => {
    const from = peer ?? `127.0.1.${index}`
    return [what, headers, from, from]
  })
  testCases(service, 403, throughOthers)
  testCases(service, 500, [
    ['no address', { 'X-Forwarded-Proto': 'https' }, '127.0.1.100', '127.0.1.100'],
    ['the address "unknown"', from('unknown'), '127.0.1.101', '127.0.1.101'],
  ])

  test('a preflight gets the refusals that its POST would get', async () => {
    const preflight = { Origin: 'http://localhost:3000', 'Access-Control-Request-Method': 'POST' }
    const CASES: [status: number, headers: Record<string, string>][] = [
      [204, FORWARDED],
      [403, forwarded('http')],
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
})

describe('with a certificate and a proxy', async () => {
  const files = await writeCertificate(await ownFolder(), 'tls')
  const service = await own(startTestService('sqlite', { TRUST_PROXY: '127.0.0.1', ...files }))
  await service.addUser(body.email)
  assert.match(service.url, /^https:/)

  testCases(service, 200, [
    ['the proxy', FORWARDED, CLIENT],
    ['a direct caller', {}, '127.0.0.2', '127.0.0.2'],
    ['one with headers of a proxy', FORWARDED, '127.0.0.2', '127.0.0.2'],
  ])
  const plain = { 'X-Forwarded-For': CLIENT }
  testCases(service, 403, [['the proxy about plain HTTP', plain, '127.0.0.1']])
})
