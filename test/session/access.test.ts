import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { decodeJwt, decodeProtectedHeader, exportJWK, generateKeyPair, SignJWT } from 'jose'
import { loadKeySet } from '../../src/keys/key-file.ts'
import type { AccessKey } from '../../src/keys/key-set.ts'
import { ENGINES_BY_RUN } from '../support/engines.ts'
import { until } from '../support/process.ts'
import { startTestService } from '../support/service.ts'
import {
  AUTH,
  bearer,
  cookie,
  INVALID_TOKEN,
  type Login,
  NO_CREDENTIAL,
  SECOND_MS,
  type SessionService,
  startSessionService,
} from '../support/session-client.ts'

const ENDPOINTS: [method: string, path: string][] = [
  ['GET', '/session'],
  ['GET', '/sessions'],
  ['DELETE', '/sessions'],
  ['DELETE', '/sessions/7d1ad5f1-5a8c-4e8c-9d1c-0a4b4f1f0e55'],
]
const ALLOWED: [path: string, allow: string][] = [
  ['/login', 'POST'],
  ['/refresh', 'POST'],
  ['/logout', 'POST'],
  ['/session', 'GET, HEAD'],
  ['/sessions', 'GET, HEAD, DELETE'],
  ['/sessions/7d1ad5f1-5a8c-4e8c-9d1c-0a4b4f1f0e55', 'DELETE'],
  ['/sessions/x', 'DELETE'],
]
const METHODS = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'PROPFIND']

const encode = (part: object) => Buffer.from(JSON.stringify(part)).toString('base64url')

for (const engine of ENGINES_BY_RUN) {
  describe(`access to sessions on ${engine}`, () => {
    let service: SessionService
    let login: Login
    let key: AccessKey
    before(async () => {
      service = await startSessionService(engine)
      await service.addUser('kate@example.com')
      login = await service.browserLogin('kate@example.com')
      const { accessKeys } = await loadKeySet(join(service.dataDir, 'signing-keys.json'))
      assert.ok(accessKeys[0])
      key = accessKeys[0]
    })
    after(async () => {
      await service.assertSecretsKept()
      await service.stop()
    })

    /** The genuine token with changes to its header or claims, signed with the genuine key. */
    const resigned = (header: object = {}, claims: object = {}) =>
      new SignJWT({ ...decodeJwt(login.accessToken), ...claims })
        .setProtectedHeader({
          alg: key.algorithm,
          ...decodeProtectedHeader(login.accessToken),
          ...header,
        })
        .sign(key.signingKey)
    const unsigned = (header: object) => {
      const [, payload] = login.accessToken.split('.')
      return `${encode({ ...decodeProtectedHeader(login.accessToken), ...header })}.${payload}.`
    }
    const secondsAgo = (seconds: number) => Math.floor(service.now().getTime() / 1000) - seconds

    async function statusWith(token: string): Promise<number> {
      const { status, text } = await service.get('/session', bearer(token))
      if (status !== 200) assert.equal(text, INVALID_TOKEN)
      return status
    }

    const REFUSED: [string, () => Promise<string> | string][] = [
      ['for another audience', () => resigned({}, { aud: 'https://other.example' })],
      ['without an audience', () => resigned({}, { aud: undefined })],
      ['of another issuer', () => resigned({}, { iss: 'https://evil.example' })],
      ['without an expiry', () => resigned({}, { exp: undefined })],
      ['that is valid in a minute', () => resigned({}, { nbf: secondsAgo(-60) })],
      ['without a session', () => resigned({}, { sid: undefined })],
      ['with a session id that is not a UUID', () => resigned({}, { sid: "' or 1=1--" })],
      ['of another user', () => resigned({}, { sub: login.sessionId })],
      ['of another type', () => resigned({ typ: 'JWT' })],
      ['of the type of refresh tokens', () => resigned({ typ: 'rt+jwt' })],
      ['without a type', () => resigned({ typ: undefined })],
      ['of an unknown key', () => resigned({ kid: 'unknown' })],
      ['with a file path as its kid', () => resigned({ kid: '../../dev/null' })],
      ['without a kid', () => resigned({ kid: undefined })],
      ['unsigned', () => unsigned({})],
      ['unsigned, alg none', () => unsigned({ alg: 'none' })],
      ['unsigned, alg None', () => unsigned({ alg: 'None' })],
      ['with an unknown critical header', () => unsigned({ crit: ['x'], x: true })],
      ['with a payload that is not encoded', () => unsigned({ crit: ['b64'], b64: false })],
      ['that is empty', () => ''],
      ['that is not a JWT', () => 'garbage'],
    ]
    for (const [name, forge] of REFUSED) {
      test(`a token ${name} is refused`, async () => {
        assert.equal(await statusWith(await forge()), 401)
        assert.equal(await statusWith(login.accessToken), 200)
      })
    }

    test('a token signed with the published key as a secret is refused', async () => {
      const { json } = await service.call({ method: 'GET', path: '/.well-known/jwks.json' })
      const secret = Buffer.from(JSON.stringify(json.keys[0]))
      const token = await new SignJWT(decodeJwt(login.accessToken))
        .setProtectedHeader({ ...decodeProtectedHeader(login.accessToken), alg: 'HS256' })
        .sign(secret)
      assert.equal(await statusWith(token), 401)
    })

    test('key addresses in a token are not fetched, and a key in a token is not used', async () => {
      let connections = 0
      const listener = createServer(socket => {
        connections++
        socket.destroy()
      }).listen(0, '127.0.0.1')
      await once(listener, 'listening')
      const { port } = listener.address() as AddressInfo
      const own = await generateKeyPair('ES256')
      const jwk = await exportJWK(own.publicKey)
      const url = `http://127.0.0.1:${port}/keys.json`
      const headers = [{ jku: url }, { x5u: url }, { jwk }, { jku: url, kid: '' }]
      for (const header of [...headers, { kid: url }, { kid: '', jwk }]) {
        const token = await new SignJWT(decodeJwt(login.accessToken))
          .setProtectedHeader({
            alg: 'ES256',
            ...decodeProtectedHeader(login.accessToken),
            ...header,
          })
          .sign(own.privateKey)
        assert.equal(await statusWith(token), 401, JSON.stringify(header))
      }
      assert.equal(await statusWith(await resigned({ jku: url, x5u: url })), 200)
      listener.close()
      assert.equal(connections, 0)
    })

    test('a token is accepted for 30 seconds after its expiry, and no longer', async t => {
      service.stopClock(t)
      const { accessToken } = await service.programLogin('kate@example.com')
      const exp = (decodeJwt(accessToken).exp ?? 0) * SECOND_MS
      service.advanceTo(exp + 27 * SECOND_MS)
      assert.equal(await statusWith(accessToken), 200)
      service.advanceTo(exp + 31 * SECOND_MS)
      assert.equal(await statusWith(accessToken), 401)
      login = await service.browserLogin('kate@example.com')
    })

    for (const [method, path] of ENDPOINTS) {
      test(`${method} ${path.slice(0, 12)} refuses a token anywhere but as the bearer`, async () => {
        const token = login.accessToken
        const places: [string, Record<string, string>][] = [
          ['', {}],
          [`?access_token=${token}`, {}],
          [`?token=${token}&refreshToken=${login.refreshToken}`, {}],
          ['', { Authorization: token }],
          ['', { Authorization: `Basic ${token}` }],
          ['', { Authorization: `Bearer  ${token}` }],
          ['', { 'X-Access-Token': token }],
        ]
        for (const [query, headers] of places) {
          const answer = await service.call({ method, path: `${AUTH}${path}${query}`, headers })
          const refusal = headers.Authorization?.startsWith('Bearer')
            ? INVALID_TOKEN
            : NO_CREDENTIAL
          assert.deepEqual([answer.status, answer.text], [401, refusal])
          assert.equal(answer.headers['cache-control'], 'no-store')
        }
      })
    }

    test('the case of the Bearer scheme does not matter', async () => {
      const headers = { Authorization: `bEARER ${login.accessToken}` }
      assert.equal((await service.get('/session', headers)).status, 200)
    })

    for (const [path, allow] of ALLOWED) {
      test(`${path.slice(0, 12)} allows ${allow} only, and answers preflights`, async () => {
        for (const method of METHODS.filter(name => !allow.split(', ').includes(name))) {
          const headers = bearer(login.accessToken)
          const answer = await service.call({ method, path: `${AUTH}${path}`, headers })
          assert.deepEqual([answer.status, answer.headers.allow], [405, allow], method)
          assert.equal(answer.json.error.code, 'METHOD_NOT_ALLOWED')
          assert.equal(answer.headers['cache-control'], 'no-store')
        }
        const preflight = await service.call({
          method: 'OPTIONS',
          path: `${AUTH}${path}`,
          headers: {
            Origin: 'http://localhost:3000',
            'Access-Control-Request-Method': allow.split(', ').at(-1),
            'Access-Control-Request-Headers': 'x-csrf-token,authorization',
          },
        })
        assert.equal(preflight.status, 204)
        assert.equal(preflight.headers['access-control-allow-origin'], 'http://localhost:3000')
        assert.equal(preflight.headers['access-control-allow-credentials'], 'true')
        assert.match(String(preflight.headers['access-control-allow-methods']), /DELETE/)
        assert.match(String(preflight.headers['access-control-allow-headers']), /X-CSRF-Token/)
      })
    }

    test('HEAD is answered 200 without a body', async () => {
      for (const path of ['/session', '/sessions']) {
        const call = { method: 'HEAD', path: `${AUTH}${path}` }
        const { status, text } = await service.call({ ...call, headers: bearer(login.accessToken) })
        assert.deepEqual([status, text], [200, ''])
      }
    })
  })
}

test('a request that reads its session by the cookie ends before the store closes', async () => {
  const paths = ['/session', '/sessions', '/verify']
  let waiting = 0
  const wait = () => {
    waiting++
    return new Promise<never>(() => {})
  }
  const service = await startTestService('sqlite', {}, null, undefined, store => ({
    ...store,
    sessions: { ...store.sessions, findLiveByCookie: wait },
  }))
  for (const path of paths) {
    const call = { method: 'GET', path: `${AUTH}${path}`, headers: cookie('A'.repeat(43)) }
    service.call(call).catch(() => {})
  }
  await until(async () => waiting === paths.length)
  await service.stop()
  const cutOff = service.logged().find(({ event }) => event === 'service.cut_off')
  assert.equal(cutOff?.unfinished, paths.length)
})
