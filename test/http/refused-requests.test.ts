// Requests that are refused before they do anything are logged in one line without secrets: origins and return_to
// addresses that are not listed, and requests that are malformed, ambiguous or too large.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { until } from '../support/process.ts'
import { answersOf, createRawClient, receive } from '../support/raw-connection.ts'
import {
  type Call,
  createAddresses,
  LOGIN,
  loggedBy,
  refusedLines,
  startTestService,
  type TestService,
} from '../support/service.ts'

const LISTED = 'https://app.example.com'
const UNLISTED = 'https://evil.example'
const CANARY = 'c4n4ry'

let service: TestService
const newAddress = createAddresses()
before(async () => {
  service = await startTestService('sqlite', { CORS_ORIGINS: LISTED, RETURN_TO_ORIGINS: LISTED })
})
after(async () => {
  assert.ok(!service.logText().includes(CANARY))
  await service.stop()
})

test('an unlisted origin is logged, cut to 256 characters; own and listed origins are not logged', async () => {
  const jwks = { method: 'GET', path: '/.well-known/jwks.json' }
  const host = new URL(service.url).host
  const CASES: [call: Call, origin: string | null][] = [
    [{ ...jwks, headers: { Origin: UNLISTED } }, UNLISTED],
    [{ ...jwks, headers: { Origin: 'null' } }, 'null'],
    [
      { ...jwks, headers: { Origin: `https://${'x'.repeat(5_000)}` } },
      `https://${'x'.repeat(248)}`,
    ],
    [
      {
        method: 'OPTIONS',
        headers: { Origin: UNLISTED, 'Access-Control-Request-Method': 'POST' },
      },
      UNLISTED,
    ],
    [{ ...jwks, path: '/nothing', headers: { Origin: UNLISTED } }, UNLISTED],
    [jwks, null],
    [{ ...jwks, headers: { Origin: LISTED } }, null],
    [{ ...jwks, headers: { Origin: `https://${host}` } }, null],
    [{ ...jwks, headers: { Origin: UNLISTED, 'Sec-Fetch-Site': 'same-origin' } }, null],
  ]
  for (const [call, origin] of CASES) {
    const lines = await refusedLines(service, () => service.call({ from: newAddress(), ...call }))
    assert.deepEqual(
      lines,
      origin === null
        ? []
        : [{ level: 'warn', event: 'request.refused', reason: 'origin', origin }],
    )
  }
})

test('a refused return_to is logged with its origin, and without its other parts', async () => {
  const CASES: [returnTo: string, origin: string | null | undefined][] = [
    [`${UNLISTED}/${CANARY}?token=${CANARY}#${CANARY}`, UNLISTED],
    [`https://${CANARY}:${CANARY}@evil.example/`, UNLISTED],
    // As it was sent: in its normal form it would look like a listed one.
    [`${LISTED.toUpperCase()}/${CANARY}`, LISTED.toUpperCase()],
    [`${LISTED}:443?${CANARY}`, `${LISTED}:443`],
    [`https://user@${LISTED.slice(8)}/`, LISTED],
    [`https://e\tvil.example/${CANARY}`, UNLISTED],
    [`https://${'evil.'.repeat(100)}example/`, `https://${'evil.'.repeat(50)}`.slice(0, 256)],
    [`//evil.example/${CANARY}`, undefined],
    [`javascript:${CANARY}`, 'null'],
    [`${LISTED}\\@evil.example/${CANARY}`, LISTED],
    [`${UNLISTED}/${CANARY.repeat(400)}`, undefined],
    ['', undefined],
    [`${LISTED}/${CANARY}`, null],
  ]
  for (const [returnTo, origin] of CASES) {
    const path = `/login?return_to=${encodeURIComponent(returnTo)}`
    const lines = await refusedLines(service, async () => {
      assert.equal((await service.call({ method: 'GET', path, from: newAddress() })).status, 200)
    })
    const line = { level: 'warn', event: 'request.refused', reason: 'return-to' }
    const expected = origin === undefined ? [line] : [{ ...line, origin }]
    assert.deepEqual(lines, origin === null ? [] : expected, returnTo)
  }
  const both = `/login?return_to=${UNLISTED}&return_to=${LISTED}`
  const lines = await refusedLines(service, () =>
    service.call({ method: 'GET', path: both, from: newAddress() }),
  )
  assert.deepEqual(lines, [{ level: 'warn', event: 'request.refused', reason: 'return-to' }])
})

const JSON_TYPE = { 'Content-Type': 'application/json' }
const MALFORMED: [reason: string, status: number, call: Call][] = [
  [
    'malformed-json',
    400,
    { path: '/api/v1/auth/refresh', body: `{"${CANARY}`, headers: JSON_TYPE },
  ],
  ['bad-request', 400, { method: 'GET', path: `/%zz${CANARY}` }],
  ['invalid-fields', 400, { body: { password: CANARY } }],
  ['malformed-json', 400, { body: `{"${CANARY}`, headers: JSON_TYPE }],
  ['body-too-large', 413, { body: { password: CANARY.repeat(4_000) } }],
  ['media-type', 415, { body: `password=${CANARY}`, headers: { 'Content-Type': 'a/b' } }],
  ['media-type', 415, { body: {}, headers: { ...JSON_TYPE, 'Content-Encoding': 'gzip' } }],
  ['expectation', 417, { body: {}, headers: { ...JSON_TYPE, Expect: CANARY } }],
]
for (const [reason, status, call] of MALFORMED) {
  test(`a request that gets a ${status} is logged: ${reason}`, async () => {
    const lines = await refusedLines(service, async () => {
      assert.equal((await service.call({ from: newAddress(), ...call })).status, status)
    })
    assert.deepEqual(lines, [{ level: 'info', event: 'request.refused', reason }])
  })
}

const HEADERS = Array.from({ length: 101 }, (_, i) => `X-${CANARY}-${i}: ${CANARY}\r\n`).join('')
const AMBIGUOUS: [reason: string, status: number, bytes: string][] = [
  ['bad-request', 400, `POST ${LOGIN} HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n`],
  ['headers-too-large', 431, `GET /login HTTP/1.1\r\nHost: a\r\n${HEADERS}\r\n`],
]
for (const [reason, status, bytes] of AMBIGUOUS) {
  test(`a request that no client library sends is logged with the address of its peer: ${reason}`, async () => {
    const socket = await (await createRawClient(service)).open()
    const lines = await refusedLines(service, async () => {
      socket.end(bytes)
      assert.deepEqual(
        answersOf(await receive(socket)).map(answer => answer.status),
        [status],
      )
    })
    assert.deepEqual(lines, [{ level: 'info', event: 'request.refused', reason }])
  })
}

test('a client that repeats a malformed request writes one line, then counts', async () => {
  const from = newAddress()
  const counted = (lines: { ip?: unknown; count?: unknown }[]) =>
    lines.reduce((sum, { ip, count }) => sum + (ip === from ? Number(count ?? 1) : 0), 0)
  const startMs = performance.now()
  const lines = await loggedBy(service, async () => {
    for (let i = 0; i < 200; i++) await service.call({ from, body: { email: CANARY, i } })
    await until(async () => counted(service.logged()) === 200)
  })
  // Counts are written once a second.
  const most = 2 + (performance.now() - startMs) / 1_000
  assert.ok(lines.length <= most, `${lines.length} lines instead of ${most}`)
})

test('an address or a method that does not exist is not logged', async () => {
  const lines = await refusedLines(service, async () => {
    assert.equal((await service.call({ method: 'GET', path: '/nothing' })).status, 404)
    assert.equal((await service.call({ method: 'GET', path: LOGIN })).status, 405)
  })
  assert.deepEqual(lines, [])
})
