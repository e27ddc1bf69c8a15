// Which requests reach the admin API: only those with a valid token, on its own port. Its OpenAPI document, which needs a
// token too, is valid, complete and true: the tests of the admin API compare every answer with it (admin-service.ts).
import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import { Validator } from '@seriousme/openapi-schema-validator'
import bcrypt from 'bcrypt'
import { ADMIN_ROUTES } from '../../src/admin/api/app.ts'
import { OPERATIONS } from '../../src/admin/operations.ts'
import { wrapMethods } from '../../src/domain/operations.ts'
import { DatabaseBusy, type Store } from '../../src/domain/store.ts'
import { ADMIN_FAILURES } from '../../src/http/answer/envelope.ts'
import type { Response } from '../../src/http/openapi/document.ts'
import { createAdminToken, digestOf } from '../../src/system/identifiers.ts'
import { changeAt } from '../storage/fixtures.ts'
import { ADMIN, type AdminCall, startAdminService } from '../support/admin-service.ts'
import { shakeHands, writeCertificate } from '../support/certificates.ts'
import { scrape } from '../support/metrics.ts'
import { inParallel, own, ownFolder } from '../support/own.ts'
import { freePort } from '../support/postgres-server.ts'
import { until } from '../support/process.ts'
import { createAddresses, PASSWORD } from '../support/service.ts'

const EMAIL = 'ann@example.com'
const UNKNOWN_ID = '00000000-0000-4000-8000-000000000000'

/** Every route with its parameters filled in. */
const ROUTES = ADMIN_ROUTES.map(([method, url]) => ({
  method: String(method),
  path: url.slice(ADMIN.length).replace(':user', EMAIL).replace(':id', UNKNOWN_ID),
}))

/** What a request needs to be valid. */
const BODIES: Record<string, object> = {
  POST: { email: EMAIL, name: 'Ann', password: PASSWORD },
  PATCH: { name: 'Ann' },
  PUT: { password: PASSWORD },
}

const NAMES =
  'listUsers addUser getUser changeUser deleteUser getUserData setPassword resetSecondFactor activateUser deactivateUser lockUser unlockUser listSessions endSessions endSession getThrottle clearThrottle listAudit addToken listTokens revokeToken'

/** Node's client sends a body with these methods only. */
const bodyFor = (method: string) => (method.startsWith('P') ? {} : undefined)

// The statements are proven on both engines by the contract of the store, so one is enough.
describe('access to the admin API', async () => {
  const opsPort = await freePort()
  const service = await own(startAdminService('sqlite', { OPS_PORT: String(opsPort) }))
  await service.addUser(EMAIL)
  after(() => assert.ok(!/lsadm_[\w-]/.test(service.logText())))
  const newAddress = createAddresses()
  let tokens = 0

  const statusOf = async (token: string | null, from = newAddress()) =>
    (await service.admin('GET', `/users/${EMAIL}/sessions`, undefined, { token, from })).status

  const newToken = async (role: 'read' | 'write' | 'create', expiresAt?: Date) => {
    const name = `token-${++tokens}`
    return { name, token: await service.addToken(name, role, expiresAt) }
  }
  const revoke = (name: string) => service.store.adminTokens.revoke(name, changeAt(service.now()))

  for (const { method, path } of ROUTES) {
    test(`${method} ${path}: no, wrong, cut, revoked and session tokens get 401, and change nothing`, async () => {
      const { name, token: revoked } = await newToken('write')
      await revoke(name)
      const { accessToken } = (await service.login(EMAIL, PASSWORD)).json.data
      const { events } = (await service.admin('GET', '/audit')).json.data
      const { write } = service
      const refused = [null, '', 'x', write.slice(0, -1), `${write}x`, write.toUpperCase()]
      const other = [write, `Basic ${Buffer.from(`x:${write}`).toString('base64')}`]
      for (const call of [
        ...[...refused, revoked, accessToken].map(token => ({ token })),
        ...other.map(Authorization => ({ token: null, headers: { Authorization } })),
      ]) {
        const from = newAddress()
        const answer = await service.admin(method, path, bodyFor(method), { ...call, from })
        const { status, json, headers } = answer
        assert.deepEqual([status, json.error.code], [401, 'INVALID_TOKEN'], JSON.stringify(call))
        const challenge = 'Bearer realm="login"'
        const expected = call.token === null ? challenge : `${challenge}, error="invalid_token"`
        assert.equal(headers['www-authenticate'], expected)
      }
      assert.deepEqual((await service.admin('GET', '/audit')).json.data.events, events)
    })

    for (const [role, what, isAllowed] of [
      ['read', 'read', method === 'GET'],
      ['create', 'add users', `${method} ${path}` === 'POST /users'],
    ] as const) {
      test(`${method} ${path}: a token that may only ${what} ${isAllowed ? 'may use it' : 'gets 403'}`, async () => {
        const { name, token } = await newToken(role)
        const added = { email: `${name}@example.com`, name: 'New', password: PASSWORD }
        const body = isAllowed && method === 'POST' ? added : undefined
        const answer = await service.admin(method, path, body, { token })
        if (isAllowed) assert.ok(answer.status < 300)
        else assert.deepEqual([answer.status, answer.json.error.code], [403, 'FORBIDDEN'])
      })
    }

    test(`${method} ${path}: nothing is there on the public port and the port of the health endpoints`, async () => {
      const headers = { Authorization: `Bearer ${service.write}` }
      const answer = await service.call({ method, path: `${ADMIN}${path}`, headers })
      assert.deepEqual([answer.status, answer.json.error.code], [404, 'NOT_FOUND'])
      const ops = await fetch(`http://127.0.0.1:${opsPort}${ADMIN}${path}`, { headers })
      assert.equal(ops.status, 404)
    })
  }

  test('300 idle connections of one address do not shut out a token from there; a line and a metric tell', async () => {
    const from = newAddress()
    const sockets = await inParallel(300, () =>
      shakeHands(service.adminUrl, { localAddress: from }),
    )
    assert.equal(await statusOf(service.read, from), 200)
    for (const socket of sockets) socket.destroy()
    const line = service.logged().find(({ event }) => event === 'connection.limited')
    assert.partialDeepStrictEqual(line, { ip: from, limit: 'client', result: 'closed' })
    const series = await scrape(opsPort)
    const counted = series.get('connections_limited_total{limit="client",result="closed"}')
    assert.ok(Number(counted) >= 45, `${counted}`)
  })

  test('nothing of the public service is on the admin port', async () => {
    for (const path of ['/', '/login', '/api/v1/auth/login', '/.well-known/jwks.json', '/livez']) {
      for (const method of ['GET', 'POST']) {
        const { status } = await service.admin(method, `${service.adminUrl}${path}`)
        assert.equal(status, 404, `${method} ${path}`)
      }
    }
  })

  test('without a token, addresses and methods that do not exist are not told apart from others', async () => {
    for (const each of ['GET /nothing', 'DELETE /users', 'OPTIONS /users', 'TRACE /audit']) {
      const [method = '', path = ''] = each.split(' ')
      const call = { token: null, from: newAddress() }
      assert.equal((await service.admin(method, path, undefined, call)).status, 401, each)
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

  test('a token that may only add users can give them neither a role, a hash, a weak password nor an end', async () => {
    const { token } = await newToken('create')
    let emails = 0
    const newEmail = () => `new-${++emails}@example.com`
    const add = (fields: object) =>
      service.admin('POST', '/users', { email: newEmail(), name: 'New', ...fields }, { token })
    for (const given of [{ password: PASSWORD }, { generate: true }]) {
      const { status, json } = await add(given)
      assert.deepEqual([status, json.data.role], [201, 'user'])
      for (const refused of [
        ...[{ role: 'admin' }, { role: 'user' }, { Role: 'admin' }, { allowWeak: true }],
        ...[{ temporary: false }, { valid: '1h' }],
        { passwordHash: await bcrypt.hash(PASSWORD, 4) },
      ]) {
        const answer = await add({ ...given, ...refused })
        const refusal = [answer.status, answer.json.error.code]
        assert.deepEqual(refusal, [403, 'FORBIDDEN'], JSON.stringify(refused))
      }
    }
    assert.equal((await add({ email: EMAIL, password: PASSWORD })).status, 409)
    assert.ok(service.logged().some(({ reason }) => reason === 'create-only'))
  })

  test('a token is refused from its revocation on, in the middle of many requests', async () => {
    const { name, token } = await newToken('read')
    const samples: { startedMs: number; status: number }[] = []
    let isOver = false
    const send = async () => {
      while (!isOver) {
        const startedMs = performance.now()
        samples.push({ startedMs, status: await statusOf(token) })
      }
    }
    const sending = inParallel(8, send)
    await until(async () => samples.length > 20)
    assert.deepEqual(new Set(samples.map(({ status }) => status)), new Set([200]))
    await revoke(name)
    const revokedMs = performance.now()
    const later = () => samples.filter(({ startedMs }) => startedMs > revokedMs)
    await until(async () => later().length > 20)
    isOver = true
    await sending
    assert.deepEqual(new Set(later().map(({ status }) => status)), new Set([401]))
  })

  test('a token is refused from its end on, and the metrics tell its end and count its reads', async () => {
    const expiresAt = new Date(service.now().getTime() + 3_600_000)
    const { name, token } = await newToken('read', expiresAt)
    assert.equal(await statusOf(token), 200)
    const reads = async () => (await scrape(opsPort)).get(`admin_reads_total{token="${name}"}`)
    assert.equal(await reads(), 1)
    const series = `admin_token_expiry_timestamp_seconds{token="${name}"}`
    await until(async () => (await scrape(opsPort)).get(series) === expiresAt.getTime() / 1000)

    service.advance(expiresAt.getTime() - service.now().getTime() + 1)
    const known = service.logged().length
    assert.equal(await statusOf(token), 401)
    assert.equal(await statusOf(service.write), 200)
    const isLogged = ({ event, reason, tokenName }: Record<string, unknown>) =>
      event === 'admin.refused' && reason === 'expired-token' && tokenName === name
    await until(async () => service.logged().slice(known).some(isLogged))
    assert.equal(await reads(), 1)
  })

  test('the last use of a token is written once a minute, also after a clock that was wrong', async t => {
    service.stopClock(t)
    const { name, token } = await newToken('read')
    const lastUse = async () =>
      (await service.store.adminTokens.find(digestOf(token)))?.lastUsedAt?.getTime()
    assert.equal(await lastUse(), undefined)
    const first = service.now().getTime()
    await inParallel(10, () => statusOf(token))
    assert.equal(await lastUse(), first)
    service.advance(59_999)
    await statusOf(token)
    assert.equal(await lastUse(), first)
    service.advance(1)
    await statusOf(token)
    assert.equal(await lastUse(), first + 60_000)
    await service.store.adminTokens.touch(name, new Date(first + 86_400_000))
    assert.equal(await lastUse(), first + 86_400_000)
    await statusOf(token)
    assert.equal(await lastUse(), first + 60_000)
  })

  describe('the OpenAPI document', async () => {
    const fetch = (path: string, token: string | null = service.read) =>
      service.admin('GET', service.adminUrl + path, undefined, { token })
    const { text } = await fetch('/openapi.json')
    const { paths, tags, components } = service.described.document
    const operations = Object.values(paths).flatMap(methods => Object.values(methods))

    test('is valid OpenAPI 3.1', async () => {
      const validator = new Validator()
      const { valid, errors } = await validator.validate(JSON.parse(text))
      assert.ok(valid, JSON.stringify(errors))
      assert.equal(validator.version, '3.1')
    })

    test('every text of a request has a greatest length', () => {
      assert.deepEqual(service.described.endless, [])
    })

    test('a field of an answer that it does not describe would be noticed', () => {
      const check = (data: object) => () =>
        service.described.check('DELETE', `${ADMIN}/users/${EMAIL}/sessions`, {
          status: 200,
          headers: {
            'content-type': 'application/json; charset=utf-8',
            'x-request-id': UNKNOWN_ID,
          },
          text: JSON.stringify({ success: true, data }),
        })
      check({ ended: 1 })()
      assert.throws(check({ ended: 1, hash: '' }), /endSessions 200/)
    })

    test('describes every route and no other, in words', () => {
      const described = Object.entries(paths).flatMap(([path, methods]) =>
        Object.keys(methods).map(method => `${method.toUpperCase()} ${path}`),
      )
      const routes = ADMIN_ROUTES.map(
        ([method, url]) => `${method} ${url.replace(/:(\w+)/, (_, name) => `{${name}}`)}`,
      )
      assert.deepEqual(described.toSorted(), routes.toSorted())
      const names = tags.map(({ name }) => name)
      for (const { operationId, summary, description, tags: itsTags, security } of operations) {
        assert.match(summary, /^[A-Z].*[a-z]$/, operationId)
        assert.match(description, /^[A-Z].*\.$/, operationId)
        assert.ok(itsTags.length === 1 && names.includes(itsTags[0] ?? ''), operationId)
        assert.deepEqual(security, [{ adminToken: [] }], operationId)
      }
    })

    // Other failures of each operation are above and in api.test.ts.
    test('every operation answers as described what it does not find and what it cannot do', async () => {
      for (const [method, url] of ADMIN_ROUTES) {
        const path = url.slice(ADMIN.length).replace(/:user|:id/, UNKNOWN_ID)
        const query = url.endsWith('/throttle') ? '?client=::1' : ''
        const body = url.endsWith('/lock') ? undefined : BODIES[method]
        const codeOf = async (call: AdminCall) =>
          (await service.admin(method, path + query, body, call)).json.error?.code
        assert.equal(await codeOf({ headers: { Expect: 'miracles' } }), 'EXPECTATION_FAILED', url)
        assert.equal((await codeOf({})) === 'NOT_FOUND', url.includes(':'), url)
      }
      for (const code of Object.keys(ADMIN_FAILURES)) assert.ok(text.includes(`\`${code}\``), code)
    })

    test('its examples are valid, and every failure is explained', () => {
      for (const [name, response] of Object.entries<Response>(components.responses)) {
        const { schema = {}, examples = {} } = response.content?.['application/json'] ?? {}
        for (const [code, { summary, value }] of Object.entries(examples)) {
          assert.match(summary, /^[a-z`].{10}/, name)
          service.described.assertValid(schema, value, code)
        }
      }
    })

    test('is the same for every deployment', async () => {
      const env = { BRAND_NAME: 'Acme', BCRYPT_COST: '5', THROTTLE_PAIR_FAILURES: '2' }
      const other = await own(startAdminService('sqlite', env))
      assert.deepEqual(other.described.document, service.described.document)
    })

    test('it and the page for people need a token that may read, and are not cached', async () => {
      const create = await service.addToken('create', 'create')
      for (const path of ['/openapi.json', '/docs']) {
        for (const [token, status, code] of [
          [null, 401, 'INVALID_TOKEN'],
          ['lsadm_wrong', 401, 'INVALID_TOKEN'],
          [create, 403, 'FORBIDDEN'],
          [service.read, 200, undefined],
          [service.write, 200, undefined],
        ] as const) {
          const answer = await fetch(path, token)
          assert.deepEqual([answer.status, answer.json.error?.code], [status, code])
          assert.equal(answer.headers['cache-control'], 'no-store')
        }
      }
    })

    test('the page for people has every operation and object', async () => {
      const { headers, text: html } = await fetch('/docs')
      assert.equal(headers['content-type'], 'text/html; charset=utf-8')
      for (const { operationId } of operations) assert.ok(html.includes(`id="${operationId}"`))
      for (const [, name] of html.matchAll(/href="#(\w+)"/g)) {
        assert.ok(html.includes(`id="${name}"`), name)
      }
      assert.doesNotMatch(html, /undefined|\[object/)
    })

    // Programs rely on them, as on commands, requests and events, which tables in docs/ have.
    test('the operations have these names', () => {
      assert.deepEqual(Object.keys(OPERATIONS).join(' '), NAMES)
    })
  })
})

test('while the database does not answer, no token is accepted, and a token of another form costs no query', async () => {
  const faults = { find: null as Error | null }
  const wrap = (store: Store) =>
    wrapMethods(store, (name, operation) => async (...values) => {
      if (name === 'adminTokens.find' && faults.find) throw faults.find
      return operation(...values)
    })
  const service = await own(startAdminService('sqlite', {}, wrap))
  const statusOf = async (token: string) =>
    (await service.admin('GET', '/users', undefined, { token })).status
  for (const [fault, status] of [
    [new Error('the database is down'), 500],
    [new DatabaseBusy('no connection'), 503],
    [null, 200],
  ] as const) {
    faults.find = fault
    assert.equal(await statusOf(service.read), status)
    assert.equal(await statusOf('lsadm_short'), 401)
  }
})

test('lookups of unknown tokens wait for each other and do not delay a token that was valid before', async () => {
  const gate = Promise.withResolvers<void>()
  let lookups = 0
  const unknown = Array.from({ length: 30 }, createAdminToken)
  const digests = unknown.map(digestOf)
  const wrap = (store: Store) =>
    wrapMethods(store, (name, operation) => async (...values) => {
      if (name === 'adminTokens.find' && digests.includes(String(values[0]))) {
        lookups++
        await gate.promise
      }
      return operation(...values)
    })
  const service = await own(startAdminService('sqlite', {}, wrap))
  const statusOf = async (token: string) =>
    (await service.admin('GET', '/users', undefined, { token })).status
  assert.equal(await statusOf(service.read), 200)
  const answered: number[] = []
  const flood = unknown.map(async token => answered.push(await statusOf(token)))
  // One is looked up and 16 wait.
  await until(async () => answered.length === 13)
  assert.deepEqual([new Set(answered), lookups], [new Set([503]), 1])
  assert.equal(await statusOf(service.read), 200)
  gate.resolve()
  await Promise.all(flood)
  assert.deepEqual(answered.slice(13), Array(17).fill(401))
})

test('beside a TLS proxy the admin API takes the address and the TLS of the connection, whatever is forwarded, and the public port stays plain', async () => {
  const { TLS_CERT_FILE, TLS_KEY_FILE } = await writeCertificate(await ownFolder(), 'valid')
  const env = { ADMIN_TLS_CERT_FILE: TLS_CERT_FILE, ADMIN_TLS_KEY_FILE: TLS_KEY_FILE }
  const service = await own(startAdminService('sqlite', { TRUST_PROXY: '127.0.0.1', ...env }))
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
