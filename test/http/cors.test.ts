import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import type { IncomingHttpHeaders } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { loadConfig } from '../../src/config/config.ts'
import { loadTls } from '../../src/http/connection/tls.ts'
import { ensureKeyFile } from '../../src/keys/key-file.ts'
import {
  type Call,
  LOGIN,
  PASSWORD,
  startTestService,
  type TestService,
} from '../support/service.ts'

/** Whether a page of an origin may read answers, and whether its requests may carry cookies. */
type Access = 'with credentials' | 'without credentials' | 'none'

const JWKS = '/.well-known/jwks.json'
const folder = await mkdtemp(join(tmpdir(), 'login-cors-'))
after(() => rm(folder, { recursive: true }))

async function productionEnv() {
  const SIGNING_KEYS_FILE = join(folder, 'signing-keys.json')
  await loadTls(loadConfig({ DATA_DIR: folder }), new Date())
  await ensureKeyFile(SIGNING_KEYS_FILE, new Date())
  return {
    NODE_ENV: 'production',
    BCRYPT_COST: '10',
    JWT_ISSUER: 'https://login.example.com',
    SIGNING_KEYS_FILE,
    TLS_CERT_FILE: join(folder, 'development-cert.pem'),
    TLS_KEY_FILE: join(folder, 'development-key.pem'),
  }
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

const POLICIES: [
  name: string,
  env: () => Promise<Record<string, string>>,
  Record<Access, string[]>,
][] = [
  [
    'with a list',
    async () => ({ CORS_ORIGINS: 'https://good.example, https://other.example:8443' }),
    {
      'with credentials': ['https://good.example', 'https://other.example:8443'],
      'without credentials': [],
      none: [...LOOK_ALIKES, ...LOCAL, ...LOCAL_LOOK_ALIKES],
    },
  ],
  [
    'in development without a list',
    async () => ({}),
    {
      'with credentials': LOCAL,
      'without credentials': [...LOOK_ALIKES, ...LOCAL_LOOK_ALIKES, 'https://good.example'],
      none: [],
    },
  ],
  [
    'in production without a list',
    productionEnv,
    {
      'with credentials': [],
      'without credentials': [],
      none: [...LOOK_ALIKES, ...LOCAL, ...LOCAL_LOOK_ALIKES, 'https://good.example'],
    },
  ],
  [
    'in production with a list',
    async () => ({ ...(await productionEnv()), CORS_ORIGINS: 'https://good.example' }),
    {
      'with credentials': ['https://good.example'],
      'without credentials': [],
      none: [...LOOK_ALIKES, ...LOCAL],
    },
  ],
  [
    'in production for an application that gets codes',
    async () => ({ ...(await productionEnv()), CODE_CALLBACKS: 'https://good.example/in' }),
    {
      'with credentials': [],
      'without credentials': ['https://good.example'],
      none: [...LOOK_ALIKES, 'https://good.example/in', 'https:/', ...LOCAL],
    },
  ],
]

function checkHeaders(headers: IncomingHttpHeaders, origin: string, access: Access): void {
  assert.match(String(headers.vary), /\bOrigin\b/)
  const given = headers['access-control-allow-origin']
  const credentials = headers['access-control-allow-credentials']
  switch (access) {
    case 'with credentials':
      assert.equal(given, origin)
      assert.equal(credentials, 'true')
      break
    case 'without credentials':
      assert.ok(given === '*' || given === 'https://good.example')
      assert.equal(credentials, undefined)
      break
    case 'none': {
      const names = Object.keys(headers).filter(name => name.startsWith('access-control-'))
      assert.deepEqual(names, [])
      return
    }
  }
  assert.equal(headers['access-control-expose-headers'], 'X-Request-ID, X-CSRF-Token, Retry-After')
}

for (const [name, env, origins] of POLICIES) {
  describe(`CORS ${name}`, () => {
    let service: TestService
    before(async () => {
      service = await startTestService('sqlite', {
        ...(await env()),
        THROTTLE_PAIR_FAILURES: '1',
        THROTTLE_CLIENT_FAILURES: '1000',
      })
      await service.addUser('kate@example.com')
      await service.login('spent@example.com', 'wrong')
    })
    after(() => service.stop())

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

    for (const access of ['with credentials', 'without credentials', 'none'] as const) {
      for (const origin of origins[access]) {
        test(`access ${access} for ${JSON.stringify(origin)}`, async () => {
          const { status, headers } = await service.call({
            method: 'GET',
            path: JWKS,
            headers: { Origin: origin },
          })
          assert.equal(status, 200)
          checkHeaders(headers, origin, access)
        })
      }

      const [origin] = origins[access]
      if (origin === undefined) continue

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
          const { status, headers, text } = await service.call({
            method: 'OPTIONS',
            path,
            headers: {
              Origin: origin,
              'Access-Control-Request-Method': method,
              ...(requested && { 'Access-Control-Request-Headers': requested }),
            },
          })
          checkHeaders(headers, origin, access)
          if (access === 'none') {
            assert.ok(status >= 400)
            continue
          }
          assert.equal(status, 204)
          assert.equal(text, '')
          assert.equal(headers['access-control-allow-methods'], 'GET, POST, DELETE')
          assert.equal(
            headers['access-control-allow-headers'],
            'Content-Type, Authorization, X-Request-ID, X-CSRF-Token',
          )
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
