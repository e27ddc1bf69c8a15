import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { ensureKeyFile } from '../../src/keys/key-file.ts'
import { writeCertificate } from '../support/certificates.ts'
import { own, ownFolder } from '../support/own.ts'
import { type Call, LOGIN, PASSWORD, startTestService } from '../support/service.ts'

/** Whether a page of an origin may read answers, and whether its requests may carry cookies. */
const ACCESSES = ['with credentials', 'without credentials', 'none'] as const
type Access = (typeof ACCESSES)[number]

const PREFLIGHT = {
  ...{ status: 204, text: '' },
  headers: {
    'access-control-allow-methods': 'GET, POST, DELETE',
    'access-control-allow-headers': 'Content-Type, Authorization, X-Request-ID, X-CSRF-Token',
  },
}
const JWKS = '/.well-known/jwks.json'
const folder = await ownFolder()
const SIGNING_KEYS_FILE = join(folder, 'signing-keys.json')
await ensureKeyFile(SIGNING_KEYS_FILE, new Date())
const PRODUCTION = {
  NODE_ENV: 'production',
  BCRYPT_COST: '10',
  JWT_ISSUER: 'https://login.example.com',
  SIGNING_KEYS_FILE,
  ...(await writeCertificate(folder, 'tls')),
}

const LOOK_ALIKES = [
  ...['https://good.example.evil', 'https://goodXexample', 'https://evil.good.example'],
  ...['https://evilgood.example', 'https://good.example:444', 'https://good.example:443'],
  ...['https://good.example.', 'https://good.example/'],
  ...['https://good.example, https://evil.example', 'https://GOOD.example', 'HTTPS://good.example'],
  ...['http://good.example', 'https://good.example@evil.example', 'good.example', '*', 'null', ''],
]
const LOCAL = ['http://localhost', 'https://localhost:3000', 'http://127.0.0.1:5173']
const LOCAL_LOOK_ALIKES = [
  ...['http://localhost.evil.example', 'http://evil.localhost', 'http://127.0.0.1.evil.example'],
  ...['http://127.0.0.2', 'http://localhost:3000@evil.example', 'http://localhost:'],
  ...['http://LOCALHOST', 'file://localhost'],
]

const ALL_LOCAL = [...LOCAL, ...LOCAL_LOOK_ALIKES]
const GOOD = 'https://good.example'
const OTHER = 'https://other.example:8443'

type Policy = [name: string, env: Record<string, string>, Partial<Record<Access, string[]>>]
const POLICIES: Policy[] = [
  [
    'with a list',
    { CORS_ORIGINS: `${GOOD}, ${OTHER}` },
    { 'with credentials': [GOOD, OTHER], none: [...LOOK_ALIKES, ...ALL_LOCAL] },
  ],
  [
    'in development without a list',
    {},
    {
      'with credentials': LOCAL,
      'without credentials': [...LOOK_ALIKES, ...LOCAL_LOOK_ALIKES, GOOD],
    },
  ],
  ['in production without a list', PRODUCTION, { none: [...LOOK_ALIKES, ...ALL_LOCAL, GOOD] }],
  [
    'in production with a list, and an application that gets codes',
    { ...PRODUCTION, CORS_ORIGINS: OTHER, CODE_CALLBACKS: `${GOOD}/in` },
    {
      'with credentials': [OTHER],
      'without credentials': [GOOD],
      none: [...LOOK_ALIKES, `${GOOD}/in`, 'https:/', ...LOCAL],
    },
  ],
]

function checkHeaders(headers: IncomingHttpHeaders, origin: string, access: Access): void {
  assert.match(String(headers.vary), /\bOrigin\b/)
  if (access === 'none') {
    const names = Object.keys(headers).filter(name => name.startsWith('access-control-'))
    assert.deepEqual(names, [])
    return
  }
  const isTrusted = access === 'with credentials'
  const given = String(headers['access-control-allow-origin'])
  assert.ok((isTrusted ? [origin] : ['*', GOOD]).includes(given))
  assert.equal(headers['access-control-allow-credentials'], isTrusted ? 'true' : undefined)
  assert.equal(headers['access-control-expose-headers'], 'X-Request-ID, X-CSRF-Token, Retry-After')
}

for (const [name, env, origins] of POLICIES) {
  describe(`CORS ${name}`, async () => {
    const budgets = { THROTTLE_PAIR_FAILURES: '1', THROTTLE_CLIENT_FAILURES: '1000' }
    const service = await own(startTestService('sqlite', { ...env, ...budgets }))
    await service.addUser('kate@example.com')
    await service.login('spent@example.com', 'wrong')

    const EVERY_ANSWER: [status: number, call: () => Call][] = [
      [200, () => ({ body: { email: 'kate@example.com', password: PASSWORD } })],
      [200, () => ({ method: 'GET', path: JWKS })],
      [400, () => ({ body: {} })],
      [401, () => ({ body: { email: `${randomUUID()}@example.com`, password: 'wrong' } })],
      [404, () => ({ method: 'GET', path: '/nothing' })],
      [405, () => ({ method: 'GET' })],
      [405, () => ({ method: 'OPTIONS' })],
      [413, () => ({ body: { email: 'x'.repeat(17_000) } })],
      [415, () => ({ body: 'x' })],
      [429, () => ({ body: { email: 'spent@example.com', password: 'wrong' } })],
    ]

    for (const access of ACCESSES) {
      const [origin] = origins[access] ?? []
      if (origin === undefined) continue

      test(`access ${access} for ${origins[access]?.join(' ')}`, async () => {
        for (const Origin of origins[access] ?? []) {
          const call = { method: 'GET', path: JWKS, headers: { Origin } }
          const { status, headers } = await service.call(call)
          assert.equal(status, 200)
          checkHeaders(headers, Origin, access)
        }
      })
      test(`access ${access} is the same on every answer`, async () => {
        for (const [status, call] of EVERY_ANSWER) {
          const answer = await service.call({ ...call(), headers: { Origin: origin } })
          assert.equal(answer.status, status)
          checkHeaders(answer.headers, origin, access)
        }
      })

      test(`a preflight is ${access === 'none' ? 'refused' : `answered 204, access ${access}`}`, async () => {
        for (const [path, method, requested] of [
          [LOGIN, 'POST', 'content-type,x-request-id'],
          [LOGIN, 'PUT', 'x-anything'],
          [JWKS, 'GET', ''],
          ['/nothing', 'DELETE', 'authorization'],
        ] as const) {
          const asked = {
            Origin: origin,
            'Access-Control-Request-Method': method,
            ...(requested && { 'Access-Control-Request-Headers': requested }),
          }
          const call = { method: 'OPTIONS', path, headers: asked }
          const { status, headers, text } = await service.call(call)
          checkHeaders(headers, origin, access)
          if (access === 'none') assert.ok(status >= 400)
          else assert.partialDeepStrictEqual({ status, text, headers }, PREFLIGHT)
        }
      })
    }

    test('the answer to a request without an origin does not name the allowed origins', async () => {
      for (const [status, call] of EVERY_ANSWER) {
        const answer = await service.call(call())
        assert.equal(answer.status, status)
        assert.match(String(answer.headers.vary), /\bOrigin\b/)
        assert.equal(answer.headers['access-control-allow-credentials'], undefined)
        assert.doesNotMatch(String(answer.headers['access-control-allow-origin']), /example|local/)
      }
    })
  })
}
