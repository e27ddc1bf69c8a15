// Origins and return_to addresses that are not listed are logged in one line without secrets.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import {
  type Call,
  createAddresses,
  refusedLines,
  startTestService,
  type TestService,
} from './service.ts'

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
