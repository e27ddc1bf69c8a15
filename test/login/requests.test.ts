import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { ENGINES_BY_RUN } from '../support/engines.ts'
import { own } from '../support/own.ts'
import { createRawClient } from '../support/raw-connection.ts'
import { type Call, LOGIN, PASSWORD, startTestService, UNLIMITED } from '../support/service.ts'

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
  describe(`requests to log in on ${engine}`, async () => {
    const service = await own(startTestService(engine, UNLIMITED))

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
