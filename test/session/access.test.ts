import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { decodeJwt, decodeProtectedHeader, exportJWK, generateKeyPair, SignJWT } from 'jose'
import { loadKeySet } from '../../src/keys/key-file.ts'
import { ENGINES_BY_RUN } from '../support/engines.ts'
import { until } from '../support/process.ts'
import { startTestService } from '../support/service.ts'
import {
  AUTH,
  bearer,
  cookie,
  INVALID_TOKEN,
  NO_CREDENTIAL,
  ownSessions,
  SECOND_MS,
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

type SignKey = Parameters<SignJWT['sign']>[0]

for (const engine of ENGINES_BY_RUN) {
  describe(`access to sessions on ${engine}`, async () => {
    const service = await ownSessions(engine)
    await service.addUser('kate@example.com')
    let login = await service.browserLogin('kate@example.com')
    const { accessKeys } = await loadKeySet(join(service.dataDir, 'signing-keys.json'))
    const [genuine] = accessKeys
    assert.ok(genuine)

    /** The token with changes to its header or claims. */
    const resigned = (header: object, claims: object = {}, key: SignKey = genuine.signingKey) =>
      new SignJWT({ ...decodeJwt(login.accessToken), ...claims })
        .setProtectedHeader({
          alg: genuine.algorithm,
          ...decodeProtectedHeader(login.accessToken),
          ...header,
        })
        .sign(key)

    async function statusWith(token: string): Promise<number> {
      const { status, text } = await service.get('/session', bearer(token))
      if (status !== 200) assert.equal(text, INVALID_TOKEN)
      return status
    }

    test('every token that is not ours is refused with the same answer', async () => {
      const [header, claims] = login.accessToken.split('.')
      const forged = [
        resigned({}, { aud: 'https://other.example' }),
        resigned({}, { sub: login.sessionId }),
        resigned({ typ: 'rt+jwt' }),
        resigned({ kid: 'unknown' }),
        ...[`${header}.${claims}.`, '', 'garbage'],
      ]
      for (const token of forged) assert.equal(await statusWith(await token), 401)
      assert.equal(await statusWith(await resigned({})), 200)
    })

    test('key addresses in a token are not fetched, and a key in a token is not used', async () => {
      let connections = 0
      const listener = createServer(socket => {
        connections++
        socket.destroy()
      }).listen(0, '127.0.0.1')
      await once(listener, 'listening')
      const { port } = listener.address() as AddressInfo
      const { publicKey, privateKey } = await generateKeyPair('ES256')
      const jwk = await exportJWK(publicKey)
      const url = `http://127.0.0.1:${port}/keys.json`
      const headers = [{ jku: url }, { x5u: url }, { jwk }, { jku: url, kid: '' }]
      for (const header of [...headers, { kid: url }, { kid: '', jwk }]) {
        const token = await resigned(header, {}, privateKey)
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
        const places: [query: string, headers: object, refusal?: string][] = [
          ['', {}],
          [`?access_token=${token}`, {}],
          [`?token=${token}&refreshToken=${login.refreshToken}`, {}],
          ['', { Authorization: token }],
          ['', { Authorization: `Basic ${token}` }],
          ['', { Authorization: `Bearer  ${token}` }, INVALID_TOKEN],
          ['', { 'X-Access-Token': token }],
        ]
        for (const [query, given, refusal = NO_CREDENTIAL] of places) {
          const call = { method, path: `${AUTH}${path}${query}`, headers: { ...given } }
          const { status, text, headers } = await service.call(call)
          assert.deepEqual([status, text, headers['cache-control']], [401, refusal, 'no-store'])
        }
      })
    }

    for (const [path, allow] of ALLOWED) {
      test(`${path.slice(0, 12)} allows ${allow} only`, async () => {
        for (const method of METHODS.filter(name => !allow.split(', ').includes(name))) {
          const headers = bearer(login.accessToken)
          const answer = await service.call({ method, path: `${AUTH}${path}`, headers })
          assert.deepEqual([answer.status, answer.headers.allow], [405, allow], method)
          assert.equal(answer.json.error.code, 'METHOD_NOT_ALLOWED')
          assert.equal(answer.headers['cache-control'], 'no-store')
        }
      })
    }

    test('HEAD is answered 200 without a body, and the case of the Bearer scheme does not matter', async () => {
      const headers = { Authorization: `bEARER ${login.accessToken}` }
      for (const path of ['/session', '/sessions']) {
        const call = { method: 'HEAD', path: `${AUTH}${path}`, headers }
        const { status, text } = await service.call(call)
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
