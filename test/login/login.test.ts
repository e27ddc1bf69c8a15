import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { after, before, describe, test } from 'node:test'
import bcrypt from 'bcrypt'
import { createLocalJWKSet, decodeJwt, decodeProtectedHeader, jwtVerify } from 'jose'
import { byEmail, changeAt } from '../storage/fixtures.ts'
import { ENGINES_BY_RUN } from '../support/engines.ts'
import { until } from '../support/process.ts'
import {
  ISSUER,
  PASSWORD,
  startTestService,
  TEST_COST,
  type TestService,
  UNLIMITED,
} from '../support/service.ts'

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/

for (const engine of ENGINES_BY_RUN) {
  describe(`login on ${engine}`, () => {
    let service: TestService
    before(async () => {
      service = await startTestService(engine, UNLIMITED)
    })
    after(() => service.stop())

    test('the right password gets the user, two tokens and the lifetime of the access token', async () => {
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

    test('the access token verifies with the published keys and has the documented claims', async () => {
      const id = await service.addUser('claims@example.com')
      const { json } = await service.login('claims@example.com', PASSWORD)
      const jwks = await service.call({ method: 'GET', path: '/.well-known/jwks.json' })
      const { payload, protectedHeader } = await jwtVerify(
        json.data.accessToken,
        createLocalJWKSet({ keys: jwks.json.keys }),
        {
          typ: 'at+jwt',
          algorithms: ['ES256'],
          issuer: ISSUER,
          audience: ISSUER,
        },
      )
      assert.equal(protectedHeader.kid, jwks.json.keys[0]?.kid)
      assert.equal(
        Object.keys(payload).toSorted().join(' '),
        'aud email exp iat iss jti name role sid sub',
      )
      assert.equal(payload.sub, id)
      assert.equal(payload.email, 'claims@example.com')
      assert.equal((payload.exp ?? 0) - (payload.iat ?? 0), 3600)
      assert.match(String(payload.jti), UUID)
      assert.match(String(payload.sid), UUID)
      assert.ok(!JSON.stringify(jwks.json).includes('"d"'), 'no private part is published')
    })

    test('the refresh token expires after seven days, fits its column, and only its digest is stored', async () => {
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
      await byEmail(service.store).deactivate('inactive@example.com', changeAt(service.now()))
      await byEmail(service.store).lock(
        'locked@example.com',
        new Date('2999-01-01'),
        changeAt(service.now()),
      )
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
        ['not an email', 'x'],
        [`${'a'.repeat(300)}@example.com`, 'x'],
        ['known@example.com\u0000', PASSWORD],
        ['\u0000', 'x'],
        ['\udfff@example.com', 'x'],
        ["' or 1=1 --", 'x'],
        ['absent', 'x'],
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
          assert.equal(
            (await service.login(email, other)).status,
            401,
            `${email} ${JSON.stringify(other)}`,
          )
        }
      }
    })

    test('hashes with the prefixes $2a$, $2b$ and $2y$ verify', async () => {
      const hash = await bcrypt.hash(PASSWORD, TEST_COST)
      for (const prefix of ['$2a$', '$2b$', '$2y$']) {
        const email = `prefix-${prefix.slice(1, 3)}@example.com`
        await service.addUser(email, { passwordHash: hash.replace('$2b$', prefix) })
        assert.equal((await service.login(email, PASSWORD)).status, 200, prefix)
        assert.equal((await service.login(email, 'wrong')).status, 401, prefix)
      }
    })

    test('a hash of another cost is replaced after a success, and not after a failure', async () => {
      const old = await bcrypt.hash(PASSWORD, TEST_COST + 1)
      await service.addUser('rehash@example.com', { passwordHash: old })
      await service.login('rehash@example.com', 'wrong')
      assert.equal((await service.store.users.findByEmail('rehash@example.com'))?.passwordHash, old)
      assert.equal((await service.login('rehash@example.com', PASSWORD)).status, 200)
      const storedHash = async () =>
        (await service.store.users.findByEmail('rehash@example.com'))?.passwordHash ?? ''
      await until(async () => (await storedHash()) !== old)
      assert.equal(bcrypt.getRounds(await storedHash()), TEST_COST)
      assert.equal((await service.login('rehash@example.com', PASSWORD)).status, 200)
    })

    test('20 logins at once all succeed while the hash is replaced', async () => {
      const passwordHash = await bcrypt.hash(PASSWORD, TEST_COST + 1)
      await service.addUser('crowd@example.com', { passwordHash })
      const logins = Array.from({ length: 20 }, () => service.login('crowd@example.com', PASSWORD))
      for (const { status } of await Promise.all(logins)) assert.equal(status, 200)
    })

    test('a failure adds one to the failed logins of the user, and a success clears them', async () => {
      await service.addUser('count@example.com')
      const failures = async () =>
        (await service.store.users.findByEmail('count@example.com'))?.failedLoginAttempts
      await service.login('count@example.com', 'wrong')
      await service.login('count@example.com', 'wrong')
      assert.equal(await failures(), 2)
      await service.login('count@example.com', PASSWORD)
      assert.equal(await failures(), 0)
    })
  })
}
