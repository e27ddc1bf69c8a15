import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { after, before, describe, test } from 'node:test'
import bcrypt from 'bcrypt'
import { createLocalJWKSet, decodeJwt, decodeProtectedHeader, jwtVerify } from 'jose'
import { ENGINES } from './engines.ts'
import {
  type Call,
  LOGIN,
  PASSWORD,
  startTestService,
  TEST_COST,
  type TestService,
} from './service.ts'

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/
const ENVELOPE_400 = (...fields: string[]) => ({
  success: false,
  error: { code: 'VALIDATION_ERROR', message: 'Email and password are required', fields },
})

for (const engine of ENGINES) {
  describe(`login on ${engine}`, () => {
    let service: TestService
    // Budgets out of the way: this file is about single answers.
    before(async () => {
      service = await startTestService(engine, {
        THROTTLE_PAIR_FAILURES: '1000',
        THROTTLE_EMAIL_FAILURES: '1000',
        THROTTLE_CLIENT_FAILURES: '1000',
      })
    })
    after(() => service.stop())

    test('the right password gets the user, two tokens and their validity', async () => {
      const id = await service.addUser('kate@example.com', { name: 'Kate O’Neil' })
      const answer = await service.login('kate@example.com', PASSWORD)
      assert.equal(answer.status, 200)
      assert.deepEqual(Object.keys(answer.json), ['success', 'data'])
      const { user, accessToken, refreshToken, expiresIn, ...rest } = answer.json.data
      assert.deepEqual(rest, {})
      assert.equal(expiresIn, 3600)
      assert.deepEqual(Object.keys(user), ['id', 'email', 'name', 'role', 'createdAt'])
      assert.equal(user.id, id)
      assert.equal(user.email, 'kate@example.com')
      assert.equal(user.name, 'Kate O’Neil')
      assert.equal(user.role, 'user')
      assert.equal(new Date(user.createdAt).toISOString(), user.createdAt)
      assert.notEqual(accessToken, refreshToken)
    })

    test('the access token verifies with the published keys and says who it is for', async () => {
      const id = await service.addUser('claims@example.com')
      const { json } = await service.login('claims@example.com', PASSWORD)
      const jwks = await service.call({ method: 'GET', path: '/.well-known/jwks.json' })
      const { payload, protectedHeader } = await jwtVerify(
        json.data.accessToken,
        createLocalJWKSet({ keys: jwks.json.keys }),
        {
          typ: 'at+jwt',
          algorithms: ['ES256'],
          issuer: 'https://localhost:0',
          audience: 'https://localhost:0',
        },
      )
      assert.equal(protectedHeader.kid, jwks.json.keys[0]?.kid)
      assert.deepEqual(Object.keys(payload).toSorted(), [
        'aud',
        'email',
        'exp',
        'iat',
        'iss',
        'jti',
        'name',
        'role',
        'sid',
        'sub',
      ])
      assert.equal(payload.sub, id)
      assert.equal(payload.email, 'claims@example.com')
      assert.equal((payload.exp ?? 0) - (payload.iat ?? 0), 3600)
      assert.match(String(payload.jti), UUID)
      assert.match(String(payload.sid), UUID)
      assert.ok(!JSON.stringify(jwks.json).includes('"d"'), 'no private part is published')
    })

    test('the refresh token lives seven days, fits its column, and only its digest is stored', async () => {
      const id = await service.addUser('digest@example.com')
      const { json } = await service.login('digest@example.com', PASSWORD)
      const { refreshToken } = json.data
      assert.deepEqual(Object.keys(decodeProtectedHeader(refreshToken)), ['alg', 'typ', 'kid'])
      assert.equal(decodeProtectedHeader(refreshToken).alg, 'HS256')
      assert.equal(decodeProtectedHeader(refreshToken).typ, 'rt+jwt')
      const claims = decodeJwt(refreshToken)
      assert.deepEqual(Object.keys(claims), ['iss', 'sub', 'jti', 'iat', 'exp'])
      assert.equal(claims.sub, id)
      assert.equal((claims.exp ?? 0) - (claims.iat ?? 0), 7 * 24 * 3600)
      assert.ok(refreshToken.length <= 500)

      const rows = await service.database.rows('select * from refresh_tokens')
      const row = rows.find(candidate => candidate.id === claims.jti)
      assert.equal(row?.token, createHash('sha256').update(refreshToken).digest('hex'))
      assert.equal(row?.user_id, id)
      assert.equal(row?.revoked_at, null)
      assert.ok(!JSON.stringify(rows).includes(refreshToken))
    })

    const REFUSED_BODIES: [string, Call, string[]][] = [
      ['no body at all', {}, ['email', 'password']],
      ['no body, but a type', { headers: { 'Content-Type': 'text/plain' } }, ['email', 'password']],
      [
        'no body, typed as JSON',
        { headers: { 'Content-Type': 'application/json' } },
        ['email', 'password'],
      ],
      ['an empty object', { body: {} }, ['email', 'password']],
      ['no password', { body: { email: 'a@example.com' } }, ['password']],
      ['no e-mail', { body: { password: 'x' } }, ['email']],
      ['an empty e-mail', { body: { email: '', password: 'x' } }, ['email']],
      ['an e-mail of white space', { body: { email: ' \t\u00a0\n', password: 'x' } }, ['email']],
      ['an empty password', { body: { email: 'a@example.com', password: '' } }, ['password']],
      ['a number for an e-mail', { body: { email: 1, password: 'x' } }, ['email']],
      ['null for a password', { body: { email: 'a@example.com', password: null } }, ['password']],
      ['a list for an e-mail', { body: { email: ['a@example.com'], password: 'x' } }, ['email']],
      [
        'an object for a password',
        { body: { email: 'a@example.com', password: {} } },
        ['password'],
      ],
      ['booleans for both', { body: { email: true, password: false } }, ['email', 'password']],
      ['a list', { body: [] }, ['email', 'password']],
      [
        'null',
        { body: null, headers: { 'Content-Type': 'application/json' } },
        ['email', 'password'],
      ],
      ['the JSON null', raw('null'), ['email', 'password']],
      ['a JSON string', raw('"x"'), ['email', 'password']],
      ['broken JSON', raw('{"email":'), ['email', 'password']],
      ['two JSON values', raw('{}{}'), ['email', 'password']],
      [
        'invalid UTF-8',
        raw(Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d])),
        ['email', 'password'],
      ],
      [
        'prototype keys',
        raw('{"__proto__":{"email":"a@example.com"},"password":"x"}'),
        ['email', 'password'],
      ],
      [
        'the query instead',
        { path: `${LOGIN}?email=a@example.com&password=x` },
        ['email', 'password'],
      ],
    ]
    for (const [name, call, fields] of REFUSED_BODIES) {
      test(`400 for ${name}, naming the fields`, async () => {
        const answer = await service.call(call)
        assert.equal(answer.status, 400)
        assert.deepEqual(answer.json, ENVELOPE_400(...fields))
      })
    }

    test('a byte-order mark, unknown keys and repeated keys do no harm', async () => {
      await service.addUser('lenient@example.com')
      const body = `\uFEFF{"email":"x","more":[1],"email":"lenient@example.com","password":"${PASSWORD}"}`
      assert.equal((await service.call(raw(body))).status, 200)
    })

    test('the e-mail is trimmed and ASCII letters lose their case, and nothing else', async () => {
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

    test('every refusal of credentials is the same to the byte', async () => {
      const hash = await bcrypt.hash(PASSWORD, TEST_COST)
      await service.addUser('known@example.com')
      await service.addUser('inactive@example.com')
      await service.addUser('locked@example.com')
      await service.addUser('by-hand@example.com')
      await service.addUser('no-hash@example.com', { passwordHash: '' })
      await service.addUser('garbage@example.com', { passwordHash: 'garbage' })
      await service.addUser('cost-20@example.com', { passwordHash: hash.replace('$04$', '$20$') })
      await service.addUser('cost-99@example.com', { passwordHash: hash.replace('$04$', '$99$') })
      await service.addUser('long@example.com', {
        passwordHash: await bcrypt.hash('a'.repeat(72), TEST_COST),
      })
      await service.store.deactivateUser('inactive@example.com', service.now())
      await service.store.lockUser('locked@example.com', new Date('2999-01-01'), service.now())
      await service.database.rows(
        "update users set locked_until = '2999-01-01T00:00:00.000Z' where email = 'by-hand@example.com'",
      )
      const refused: [string, string][] = [
        ['unknown@example.com', PASSWORD],
        ['known@example.com', 'wrong password'],
        ['known@example.com', ' '],
        ['known@example.com', `${PASSWORD} `],
        ['known@example.com', PASSWORD.toUpperCase()],
        ['inactive@example.com', PASSWORD],
        ['locked@example.com', PASSWORD],
        ['by-hand@example.com', PASSWORD],
        ['no-hash@example.com', PASSWORD],
        ['garbage@example.com', 'garbage'],
        ['cost-20@example.com', PASSWORD],
        ['cost-99@example.com', PASSWORD],
        ['long@example.com', 'a'.repeat(73)],
        ['known@example.com', 'x'.repeat(10_000)],
        ['known@example.com', '\ud800'],
        ['not an e-mail', 'x'],
        [`${'a'.repeat(300)}@example.com`, 'x'],
        ['known@example.com\u0000', PASSWORD],
        ['\u0000', 'x'],
        ['\udfff@example.com', 'x'],
        ["' or 1=1 --", 'x'],
        ['nobody', 'x'],
      ]
      const answers = await Promise.all(
        refused.map(async ([email, password]) => {
          const { status, headers, text } = await service.login(email, password)
          const { date: _, 'x-request-id': __, ...comparable } = headers
          return { status, headers: comparable, text }
        }),
      )
      const [first] = answers
      assert.equal(first?.status, 401)
      assert.equal(
        first?.text,
        '{"success":false,"error":{"code":"INVALID_CREDENTIALS","message":"Invalid email or password"}}',
      )
      for (const [index, answer] of answers.entries()) {
        assert.deepEqual(answer, first, JSON.stringify(refused[index]))
      }
    })

    test('passwords are taken whole: 72 bytes, NUL, lone halves of characters', async () => {
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
          assert.equal(
            (await service.login(email, other)).status,
            401,
            `${email} ${JSON.stringify(other)}`,
          )
        }
      }
    })

    test('hashes of every bcrypt prefix verify', async () => {
      const hash = await bcrypt.hash(PASSWORD, TEST_COST)
      for (const prefix of ['$2a$', '$2b$', '$2y$']) {
        const email = `prefix-${prefix.slice(1, 3)}@example.com`
        await service.addUser(email, { passwordHash: hash.replace('$2b$', prefix) })
        assert.equal((await service.login(email, PASSWORD)).status, 200, prefix)
        assert.equal((await service.login(email, 'wrong')).status, 401, prefix)
      }
    })

    test('a hash of another cost is made anew after a success, and only then', async () => {
      const old = await bcrypt.hash(PASSWORD, TEST_COST + 1)
      await service.addUser('rehash@example.com', { passwordHash: old })
      await service.login('rehash@example.com', 'wrong')
      assert.equal((await service.store.findUserByEmail('rehash@example.com'))?.passwordHash, old)
      assert.equal((await service.login('rehash@example.com', PASSWORD)).status, 200)
      const renewed = await until(async () => {
        const user = await service.store.findUserByEmail('rehash@example.com')
        return user?.passwordHash !== old ? user : null
      })
      assert.equal(bcrypt.getRounds(renewed.passwordHash), TEST_COST)
      assert.equal((await service.login('rehash@example.com', PASSWORD)).status, 200)
    })

    test('logins at the same time as the hash is made anew all succeed', async () => {
      const passwordHash = await bcrypt.hash(PASSWORD, TEST_COST + 1)
      await service.addUser('crowd@example.com', { passwordHash })
      const logins = Array.from({ length: 20 }, () => service.login('crowd@example.com', PASSWORD))
      for (const { status } of await Promise.all(logins)) assert.equal(status, 200)
    })

    test('a success clears the consecutive failures, a failure counts one', async () => {
      await service.addUser('count@example.com')
      const failures = async () =>
        (await service.store.findUserByEmail('count@example.com'))?.failedLoginAttempts
      await service.login('count@example.com', 'wrong')
      await service.login('count@example.com', 'wrong')
      assert.equal(await failures(), 2)
      await service.login('count@example.com', PASSWORD)
      assert.equal(await failures(), 0)
    })

    const OTHER_ANSWERS: [string, Call, number, string, Record<string, string>?][] = [
      ['another path', { method: 'GET', path: '/nothing' }, 404, 'NOT_FOUND'],
      ['a path below', { path: `${LOGIN}/x`, body: {} }, 404, 'NOT_FOUND'],
      ['GET', { method: 'GET' }, 405, 'METHOD_NOT_ALLOWED', { allow: 'POST' }],
      [
        'HEAD of the keys is allowed, POST is not',
        { path: '/.well-known/jwks.json' },
        405,
        'METHOD_NOT_ALLOWED',
        { allow: 'GET, HEAD' },
      ],
      ['DELETE', { method: 'DELETE' }, 405, 'METHOD_NOT_ALLOWED', { allow: 'POST' }],
      [
        'OPTIONS that is no preflight',
        { method: 'OPTIONS' },
        405,
        'METHOD_NOT_ALLOWED',
        { allow: 'POST' },
      ],
      ['PROPFIND', { method: 'PROPFIND' }, 405, 'METHOD_NOT_ALLOWED', { allow: 'POST' }],
      ['TRACE', { method: 'TRACE' }, 405, 'METHOD_NOT_ALLOWED', { allow: 'POST' }],
      [
        'PUT with a body of another type',
        { method: 'PUT', headers: { 'Content-Type': 'text/plain' }, body: 'x' },
        405,
        'METHOD_NOT_ALLOWED',
        { allow: 'POST' },
      ],
      [
        'text/plain',
        { headers: { 'Content-Type': 'text/plain' }, body: '{}' },
        415,
        'UNSUPPORTED_MEDIA_TYPE',
      ],
      [
        'a form',
        { headers: { 'Content-Type': 'application/x-www-form-urlencoded' }, body: 'email=a' },
        415,
        'UNSUPPORTED_MEDIA_TYPE',
      ],
      [
        'multipart',
        { headers: { 'Content-Type': 'multipart/form-data; boundary=x' }, body: '--x' },
        415,
        'UNSUPPORTED_MEDIA_TYPE',
      ],
      ['a body without a type', { body: '{}' }, 415, 'UNSUPPORTED_MEDIA_TYPE'],
      [
        'more than 16 KiB',
        { body: { email: 'a@example.com', password: 'x'.repeat(17_000) } },
        413,
        'PAYLOAD_TOO_LARGE',
      ],
      [
        'more than 16 KiB in chunks',
        {
          headers: { 'Content-Type': 'application/json', 'Transfer-Encoding': 'chunked' },
          body: ' '.repeat(20_000),
        },
        413,
        'PAYLOAD_TOO_LARGE',
      ],
    ]
    for (const [name, call, status, code, headers = {}] of OTHER_ANSWERS) {
      test(`${status} ${code} for ${name}`, async () => {
        const answer = await service.call(call)
        assert.equal(answer.status, status)
        assert.equal(answer.json.success, false)
        assert.equal(answer.json.error.code, code)
        assert.ok(answer.json.error.message.length > 0)
        for (const [header, value] of Object.entries(headers)) {
          assert.equal(answer.headers[header], value)
        }
      })
    }

    test('every kind of answer carries the same protective headers', async () => {
      await service.addUser('headers@example.com')
      const answers = [
        await service.login('headers@example.com', PASSWORD),
        await service.login('headers@example.com', 'wrong'),
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
        const label = String(status)
        assert.equal(headers['cache-control'], 'no-store', label)
        assert.equal(
          headers['strict-transport-security'],
          'max-age=31536000; includeSubDomains',
          label,
        )
        assert.equal(
          headers['content-security-policy'],
          "default-src 'none'; frame-ancestors 'none'",
          label,
        )
        assert.equal(headers['x-content-type-options'], 'nosniff', label)
        assert.equal(headers['referrer-policy'], 'no-referrer', label)
        assert.equal(headers['content-type'], 'application/json; charset=utf-8', label)
        assert.equal(headers['x-powered-by'], undefined, label)
        assert.match(String(headers['x-request-id']), UUID, label)
      }
    })

    test('a request id that is a UUID is taken over, anything else is replaced', async () => {
      const given = '0b6f5c3e-0000-4000-8000-00000000AbCd'
      const kept = await service.call({ headers: { 'X-Request-ID': given } })
      assert.equal(kept.headers['x-request-id'], given)
      for (const odd of ['1', 'x'.repeat(5000), `${given}x`, 'a b']) {
        const { headers } = await service.call({ headers: { 'X-Request-ID': odd } })
        assert.match(String(headers['x-request-id']), UUID)
      }
    })
  })
}

function raw(body: string | Buffer): Call {
  return { body, headers: { 'Content-Type': 'application/json' } }
}

async function until<T>(probe: () => Promise<T | null>): Promise<T> {
  const deadline = Date.now() + 5_000
  for (;;) {
    const found = await probe()
    if (found !== null) return found
    if (Date.now() > deadline) throw new Error('it did not happen within 5 s')
    await new Promise(resolve => setTimeout(resolve, 10))
  }
}
