import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import bcrypt from 'bcrypt'
import { createLocalJWKSet, decodeJwt, decodeProtectedHeader, jwtVerify } from 'jose'
import { byEmail, changeAt, digest } from '../storage/fixtures.ts'
import { ENGINES_BY_RUN } from '../support/engines.ts'
import { own } from '../support/own.ts'
import { until } from '../support/process.ts'
import { createRawClient } from '../support/raw-connection.ts'
import {
  type Call,
  ISSUER,
  LOGIN,
  PASSWORD,
  startTestService,
  TEST_COST,
  UNLIMITED,
} from '../support/service.ts'
import { REJECTED } from '../support/session-client.ts'

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/
const PROTECTIVE = {
  'content-type': 'application/json; charset=utf-8',
  'cache-control': 'no-store',
  'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
  'cross-origin-resource-policy': 'same-origin',
  'referrer-policy': 'no-referrer',
  'strict-transport-security': 'max-age=31536000; includeSubDomains',
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
}
const BOTH = ['email', 'password']
const EMAIL = 'a@example.com'

function raw(body: string | Buffer): Call {
  return { body, headers: { 'Content-Type': 'application/json' } }
}

for (const engine of ENGINES_BY_RUN) {
  describe(`login on ${engine}`, async () => {
    const service = await own(startTestService(engine, UNLIMITED))

    test('the right password gets the user, two tokens and the lifetime of the access token', async () => {
      const id = await service.addUser('kate@example.com', { name: 'Kate O’Neil' })
      const { status, json } = await service.login('kate@example.com', PASSWORD)
      assert.equal(status, 200)
      const { user, accessToken, refreshToken } = json.data
      const { createdAt } = user
      assert.deepEqual(json, {
        success: true,
        data: {
          user: { id, email: 'kate@example.com', name: 'Kate O’Neil', role: 'user', createdAt },
          ...{ accessToken, refreshToken, expiresIn: 3600 },
        },
      })
      assert.equal(new Date(createdAt).toISOString(), createdAt)
      assert.notEqual(accessToken, refreshToken)
    })

    test('the access token verifies with the published keys and has the documented claims', async () => {
      const id = await service.addUser('claims@example.com')
      const { json } = await service.login('claims@example.com', PASSWORD)
      const jwks = await service.call({ method: 'GET', path: '/.well-known/jwks.json' })
      const { payload, protectedHeader } = await jwtVerify(
        json.data.accessToken,
        createLocalJWKSet({ keys: jwks.json.keys }),
        { typ: 'at+jwt', algorithms: ['ES256'], issuer: ISSUER, audience: ISSUER },
      )
      assert.equal(protectedHeader.kid, jwks.json.keys[0]?.kid)
      const names = Object.keys(payload).toSorted().join(' ')
      assert.equal(names, 'amr aud email exp iat iss jti name role sid sub')
      assert.deepEqual([payload.sub, payload.email], [id, 'claims@example.com'])
      assert.equal((payload.exp ?? 0) - (payload.iat ?? 0), 3600)
      for (const claim of [payload.jti, payload.sid]) assert.match(String(claim), UUID)
      assert.ok(!JSON.stringify(jwks.json).includes('"d"'), 'no private part is published')
    })

    test('the refresh token expires after seven days, fits its column, and only its digest is stored', async () => {
      const id = await service.addUser('digest@example.com')
      const { refreshToken } = (await service.login('digest@example.com', PASSWORD)).json.data
      const { kid, ...header } = decodeProtectedHeader(refreshToken)
      assert.ok(kid)
      assert.deepEqual(header, { alg: 'HS256', typ: 'rt+jwt' })
      const claims = decodeJwt(refreshToken)
      assert.deepEqual(Object.keys(claims), ['iss', 'sub', 'sid', 'jti', 'iat', 'exp'])
      assert.equal(claims.sub, id)
      assert.equal((claims.exp ?? 0) - (claims.iat ?? 0), 7 * 24 * 3600)
      assert.ok(refreshToken.length <= 500)

      const rows = await service.database.rows('select * from refresh_tokens')
      const row = rows.find(candidate => candidate.id === claims.jti)
      assert.deepEqual(
        [row?.token, row?.user_id, row?.revoked_at],
        [digest(refreshToken), id, null],
      )
      assert.ok(!JSON.stringify(rows).includes(refreshToken))
    })

    test('an email is trimmed and its ASCII letters are lower-cased; other letters stay as they are', async () => {
      await service.addUser('Mixed.Case@Example.COM')
      for (const email of [
        'mixed.case@example.com',
        '  MIXED.CASE@EXAMPLE.COM\t',
        'Mixed.Case@example.com',
      ]) {
        assert.equal((await service.login(email, PASSWORD)).status, 200, email)
      }
      await service.addUser('kate@kelvin.example')
      assert.equal((await service.login('\u212Aate@kelvin.example', PASSWORD)).status, 401)
      assert.equal((await service.login('mıxed.case@example.com', PASSWORD)).status, 401)
    })

    test('every rejected login gets the same answer, byte for byte', async () => {
      const hash = await bcrypt.hash(PASSWORD, TEST_COST)
      for (const name of ['known', 'inactive', 'locked', 'by-hand']) {
        await service.addUser(`${name}@example.com`)
      }
      for (const [name, passwordHash] of [
        ['no-hash', ''],
        ['garbage', 'garbage'],
        ['cost-20', hash.replace('$04$', '$20$')],
        ['cost-99', hash.replace('$04$', '$99$')],
        ['long', await bcrypt.hash('a'.repeat(72), TEST_COST)],
      ] as const) {
        await service.addUser(`${name}@example.com`, { passwordHash })
      }
      const users = byEmail(service.store)
      const change = changeAt(service.now())
      await users.deactivate('inactive@example.com', change)
      await users.lock('locked@example.com', new Date('2999-01-01'), change)
      await service.database.rows(
        "update users set locked_until = '2999-01-01T00:00:00.000Z' where email = 'by-hand@example.com'",
      )
      const tried = (names: string[], ...passwords: string[]) =>
        names.flatMap(name => passwords.map(each => [`${name}@example.com`, each] as const))
      const refused = [
        ...tried(['unknown', 'inactive', 'locked', 'by-hand', 'no-hash', 'cost-20'], PASSWORD),
        ...tried(['cost-99'], PASSWORD),
        ...tried(['known'], 'wrong password', ' ', `${PASSWORD} `, PASSWORD.toUpperCase()),
        ...tried(['known'], 'x'.repeat(10_000), '\ud800'),
        ...tried(['garbage'], 'garbage'),
        ...tried(['long'], 'a'.repeat(73)),
        ...tried(['a'.repeat(300), '\udfff'], 'x'),
        ['known@example.com\u0000', PASSWORD] as const,
        ...['not an email', '\u0000', "' or 1=1 --", 'absent'].map(email => [email, 'x'] as const),
      ]
      const answering = refused.map(async ([email, password]) => {
        const { status, headers, text } = await service.login(email, password)
        const { date: _, 'x-request-id': __, ...comparable } = headers
        return { status, headers: comparable, text }
      })
      const answers = await Promise.all(answering)
      const [first] = answers
      assert.deepEqual([first?.status, first?.text], [401, REJECTED])
      for (const [index, answer] of answers.entries()) {
        assert.deepEqual(answer, first, JSON.stringify(refused[index]))
      }
    })

    test('passwords are compared in full: 72 bytes, NUL, lone surrogates, no normalisation', async () => {
      const users: [string, string, string[]][] = [
        ['bytes72@example.com', 'a'.repeat(72), [`${'a'.repeat(72)}b`, 'a'.repeat(71)]],
        ['han@example.com', '一'.repeat(24), ['一'.repeat(25)]],
        ['nul@example.com', 'abc\u0000def', ['abc', 'abc\u0000', 'abc\u0000deg']],
        ['fffd@example.com', '\uFFFD', ['\ud800', '\udc00']],
        ['nfc@example.com', 'caf\u00e9 caf\u00e9', ['cafe\u0301 cafe\u0301']],
      ]
      for (const [email, password, others] of users) {
        await service.addUser(email, { passwordHash: await bcrypt.hash(password, TEST_COST) })
        assert.equal((await service.login(email, password)).status, 200, email)
        for (const other of others) {
          const { status } = await service.login(email, other)
          assert.equal(status, 401, `${email} ${JSON.stringify(other)}`)
        }
      }
    })

    test('a hash of another cost is replaced after a success, and not after a failure', async () => {
      const email = 'rehash@example.com'
      const old = await bcrypt.hash(PASSWORD, TEST_COST + 1)
      await service.addUser(email, { passwordHash: old })
      const storedHash = async () => (await service.store.users.findByEmail(email))?.passwordHash
      await service.login(email, 'wrong')
      assert.equal(await storedHash(), old)
      assert.equal((await service.login(email, PASSWORD)).status, 200)
      await until(async () => (await storedHash()) !== old)
      assert.equal(bcrypt.getRounds((await storedHash()) ?? ''), TEST_COST)
      assert.equal((await service.login(email, PASSWORD)).status, 200)
    })

    const REFUSED_BODIES: [string, Call, string[]][] = [
      ['no body at all', {}, BOTH],
      ['no body, but a type', { headers: { 'Content-Type': 'text/plain' } }, BOTH],
      ['no body, typed as JSON', { headers: { 'Content-Type': 'application/json' } }, BOTH],
      ['an empty object', { body: {} }, BOTH],
      ['no password', { body: { email: EMAIL } }, ['password']],
      ['no email', { body: { password: 'x' } }, ['email']],
      ['an empty email', { body: { email: '', password: 'x' } }, ['email']],
      ['an email of white space', { body: { email: ' \t\u00a0\n', password: 'x' } }, ['email']],
      ['an empty password', { body: { email: EMAIL, password: '' } }, ['password']],
      ['a number for an email', { body: { email: 1, password: 'x' } }, ['email']],
      ['null for a password', { body: { email: EMAIL, password: null } }, ['password']],
      ['a list for an email', { body: { email: [EMAIL], password: 'x' } }, ['email']],
      ['an object for a password', { body: { email: EMAIL, password: {} } }, ['password']],
      ['booleans for both', { body: { email: true, password: false } }, BOTH],
      ['a list', { body: [] }, BOTH],
      ['the JSON null', raw('null'), BOTH],
      ['a JSON string', raw('"x"'), BOTH],
      ['broken JSON', raw('{"email":'), BOTH],
      ['two JSON values', raw('{}{}'), BOTH],
      ['invalid UTF-8', raw(Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d])), BOTH],
      ['prototype keys', raw('{"__proto__":{"email":"a@example.com"},"password":"x"}'), BOTH],
      ['credentials in the query', { path: `${LOGIN}?email=a@example.com&password=x` }, BOTH],
    ]
    for (const [name, call, fields] of REFUSED_BODIES) {
      test(`400 for ${name}, naming the fields`, async () => {
        const answer = await service.call(call)
        assert.equal(answer.status, 400)
        assert.deepEqual(answer.json, {
          success: false,
          error: { code: 'VALIDATION_ERROR', message: 'Email and password are required', fields },
        })
      })
    }

    test('a login with a byte-order mark, an unknown key and a repeated key succeeds', async () => {
      await service.addUser('lenient@example.com')
      const body = `\uFEFF{"email":"x","more":[1],"email":"lenient@example.com","password":"${PASSWORD}"}`
      assert.equal((await service.call(raw(body))).status, 200)
    })

    test('every kind of answer carries the same protective headers', async () => {
      const email = await service.newUser()
      const answers = [
        await service.login(email, PASSWORD),
        await service.login(email, 'wrong'),
        await service.login('', ''),
        await service.call({ method: 'GET' }),
        await service.call({ method: 'GET', path: '/nothing' }),
        await service.call({ body: 'x' }),
        await service.call({ body: { email: 'x'.repeat(17_000) } }),
      ]
      assert.deepEqual(
        answers.map(answer => answer.status),
        [200, 401, 400, 405, 404, 415, 413],
      )
      for (const { headers, status } of answers) {
        assert.partialDeepStrictEqual(headers, PROTECTIVE, String(status))
        for (const name of ['x-powered-by', 'server']) assert.ok(!(name in headers))
        assert.match(String(headers['x-request-id']), UUID)
      }
    })

    test('a request id that is a UUID is kept, any other is replaced', async () => {
      const given = '0b6f5c3e-0000-4000-8000-00000000AbCd'
      for (const kept of [given, '00000000-0000-0000-0000-000000000000']) {
        const { headers } = await service.call({ headers: { 'X-Request-ID': kept } })
        assert.equal(headers['x-request-id'], kept)
      }
      const made = new Set<unknown>()
      const odd = [
        ...['', '1', 'x'.repeat(5000), `${given}x`, 'a b', `{${given}}`, [given, given]],
        ...[`${given}, ${given}`, given.replaceAll('-', ''), given.replace('6', 'g')],
      ]
      for (const id of odd) {
        const { headers } = await service.call({ headers: { 'X-Request-ID': id } })
        assert.match(String(headers['x-request-id']), UUID)
        made.add(headers['x-request-id'])
      }
      assert.equal(made.size, odd.length)
    })
  })
}

test('with HSTS_SUBDOMAINS=no no answer speaks for the hosts below this one', async () => {
  const service = await own(startTestService('sqlite', { HSTS_SUBDOMAINS: 'no' }))
  const [unparsed] = await (await createRawClient(service)).send('not HTTP\r\n\r\n')
  const header = 'strict-transport-security'
  for (const value of [
    (await service.login('', '')).headers[header],
    (await service.call({ method: 'GET', path: '/login' })).headers[header],
    unparsed?.headers.get(header),
  ]) {
    assert.equal(value, 'max-age=31536000')
  }
})
