import assert from 'node:assert/strict'
import { createPublicKey, randomBytes, randomUUID } from 'node:crypto'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { decodeJwt, decodeProtectedHeader, SignJWT } from 'jose'
import { readKeyFile } from '../../src/keys/key-file.ts'
import { digestOf } from '../../src/system/identifiers.ts'
import { ENGINES_BY_RUN } from '../support/engines.ts'
import type { Call } from '../support/service.ts'
import {
  AUTH,
  bearer,
  INVALID_TOKEN,
  type Login,
  ownChange,
  type SessionService,
  startSessionService,
} from '../support/session-client.ts'

const JSON_TYPE = { 'Content-Type': 'application/json' }
const BAD_REQUEST = 'BAD_REQUEST'
const NAMED = ['refreshToken']

/** The request, and the status and code that `/refresh` answers. */
const ODD_BODIES: [
  string,
  Pick<Call, 'headers' | 'body'>,
  status: number,
  code: string,
  fields?: string[],
][] = [
  ['nothing at all', {}, 401, 'INVALID_TOKEN'],
  ['nothing, typed as JSON', { headers: JSON_TYPE }, 401, 'INVALID_TOKEN'],
  ['nothing, typed as text', { headers: { 'Content-Type': 'text/plain' } }, 401, 'INVALID_TOKEN'],
  ['an empty object', { body: {} }, 401, 'INVALID_TOKEN'],
  ['a list', { body: [] }, 401, 'INVALID_TOKEN'],
  ['a list of a token', { body: ['a.b.c'] }, 400, BAD_REQUEST, NAMED],
  ['JSON null', { headers: JSON_TYPE, body: 'null' }, 401, 'INVALID_TOKEN'],
  ['a JSON number', { headers: JSON_TYPE, body: '1' }, 400, BAD_REQUEST, NAMED],
  ['a JSON string', { headers: JSON_TYPE, body: '"a.b.c"' }, 400, BAD_REQUEST, NAMED],
  ['a number', { body: { refreshToken: 1 } }, 400, BAD_REQUEST, NAMED],
  ['null', { body: { refreshToken: null } }, 400, BAD_REQUEST, NAMED],
  ['true', { body: { refreshToken: true } }, 400, BAD_REQUEST, NAMED],
  ['an array', { body: { refreshToken: ['a.b.c'] } }, 400, BAD_REQUEST, NAMED],
  ['an object', { body: { refreshToken: { toString: 'a.b.c' } } }, 400, BAD_REQUEST, NAMED],
  ['an empty string', { body: { refreshToken: '' } }, 401, 'INVALID_TOKEN'],
  ['dots', { body: { refreshToken: '..' } }, 401, 'INVALID_TOKEN'],
  ['four parts', { body: { refreshToken: 'a.b.c.d' } }, 401, 'INVALID_TOKEN'],
  ['five parts', { body: { refreshToken: 'a.b.c.d.e' } }, 401, 'INVALID_TOKEN'],
  ['NUL', { body: { refreshToken: '\0' } }, 401, 'INVALID_TOKEN'],
  ['a lone surrogate', { body: { refreshToken: '\ud800' } }, 401, 'INVALID_TOKEN'],
  ['the field name in lower case', { body: { refreshtoken: 'a.b.c' } }, 400, BAD_REQUEST, NAMED],
  ['nearly 16 KiB', { body: { refreshToken: 'x'.repeat(16_000) } }, 401, 'INVALID_TOKEN'],
  ['16 KiB', { body: { refreshToken: 'x'.repeat(16_384) } }, 413, 'PAYLOAD_TOO_LARGE'],
  ['malformed JSON', { headers: JSON_TYPE, body: '{"refreshToken":' }, 400, BAD_REQUEST],
  [
    'invalid UTF-8',
    { headers: JSON_TYPE, body: Buffer.from('{"\xff":1}', 'latin1') },
    400,
    BAD_REQUEST,
  ],
  ['a prototype key', { headers: JSON_TYPE, body: '{"__proto__":{}}' }, 400, BAD_REQUEST],
  ['a body without a type', { body: '{}' }, 415, 'UNSUPPORTED_MEDIA_TYPE'],
  [
    'a form',
    {
      headers: { 'Content-Type': 'application/x-www-form-urlencoded' },
      body: 'refreshToken=a.b.c',
    },
    415,
    'UNSUPPORTED_MEDIA_TYPE',
  ],
]

const encode = (part: object) => Buffer.from(JSON.stringify(part)).toString('base64url')

for (const engine of ENGINES_BY_RUN) {
  describe(`invalid refresh tokens on ${engine}`, () => {
    let service: SessionService
    let login: Login
    let secret: Uint8Array
    let publicPem: string
    before(async () => {
      service = await startSessionService(engine)
      await service.addUser('kate@example.com')
      login = await service.programLogin('kate@example.com')
      const { keys } = await readKeyFile(join(service.dataDir, 'signing-keys.json'))
      secret = Buffer.from(keys.find(({ kty }) => kty === 'oct')?.k ?? '', 'base64url')
      const published = await service.call({ method: 'GET', path: '/.well-known/jwks.json' })
      publicPem = createPublicKey({ key: { ...published.json.keys[0] }, format: 'jwk' })
        .export({ type: 'spki', format: 'pem' })
        .toString()
    })
    after(async () => {
      await service.assertSecretsKept()
      await service.stop()
    })

    for (const [name, call, status, code, fields] of ODD_BODIES) {
      test(`${name}: refresh answers ${status} ${code}, logout ${status === 401 ? '200' : 'the same'}`, async () => {
        const refreshed = await service.call({ path: `${AUTH}/refresh`, ...call })
        assert.deepEqual([refreshed.status, refreshed.json.error.code], [status, code])
        assert.deepEqual(refreshed.json.error.fields, fields)
        const loggedOut = await service.call({ path: `${AUTH}/logout`, ...call })
        assert.equal(loggedOut.status, status === 401 ? 200 : status)
        if (status !== 401) assert.equal(loggedOut.text, refreshed.text)
        else assert.equal(loggedOut.text, '{"success":true,"data":{}}')
      })
    }

    test('a body without a token does not matter if there is another credential', async () => {
      const { accessToken } = await service.programLogin('kate@example.com')
      const body = { refresh_token: 'x' }
      const path = `${AUTH}/logout`
      assert.equal((await service.call({ path, body, headers: bearer(accessToken) })).status, 200)
      assert.equal((await service.get('/session', bearer(accessToken))).status, 401)
      const browser = await service.browserLogin('kate@example.com')
      for (const path of [`${AUTH}/refresh`, `${AUTH}/logout`]) {
        assert.equal((await service.call({ path, body, headers: ownChange(browser) })).status, 200)
      }
    })

    /** The genuine token with changes to its header or claims, signed with this key. */
    const resigned = (key: Uint8Array, header: object = {}, claims: object = {}) => {
      const { alg = 'HS256', ...genuine } = decodeProtectedHeader(login.refreshToken)
      return new SignJWT({ ...decodeJwt(login.refreshToken), ...claims })
        .setProtectedHeader({ alg, ...genuine, ...header })
        .sign(key)
    }
    const unsigned = (header: object) => {
      const [, payload] = login.refreshToken.split('.')
      return `${encode({ ...decodeProtectedHeader(login.refreshToken), ...header })}.${payload}.`
    }

    const FORGERIES: [string, () => Promise<string> | string][] = [
      ['unsigned, alg none', () => unsigned({ alg: 'none' })],
      ['unsigned, alg None', () => unsigned({ alg: 'None' })],
      ['unsigned, alg as it was', () => unsigned({})],
      ['without alg', () => unsigned({ alg: undefined })],
      ['signed with the public key', () => resigned(Buffer.from(publicPem))],
      [
        'signed with the public key, and its id',
        () =>
          resigned(Buffer.from(publicPem), { kid: decodeProtectedHeader(login.accessToken).kid }),
      ],
      ['signed with another secret', () => resigned(randomBytes(32))],
      [
        'signed with the right secret but another algorithm',
        () => resigned(secret, { alg: 'HS512' }),
      ],
      ['of another issuer', () => resigned(secret, {}, { iss: 'https://evil.example' })],
      ['without an issuer', () => resigned(secret, {}, { iss: undefined })],
      ['expired', () => resigned(secret, {}, { exp: Math.floor(Date.now() / 1000) - 1 })],
      ['without an expiry', () => resigned(secret, {}, { exp: undefined })],
      ['not valid yet', () => resigned(secret, {}, { nbf: Math.floor(Date.now() / 1000) + 3600 })],
      ['with an id that was never issued', () => resigned(secret, {}, { jti: randomUUID() })],
      ['with an id that is not a UUID', () => resigned(secret, {}, { jti: "' or 1=1--" })],
      ['with a number as its id', () => resigned(secret, {}, { jti: 1 })],
      ['without an id', () => resigned(secret, {}, { jti: undefined })],
      ['typed as an access token', () => resigned(secret, { typ: 'at+jwt' })],
      ['typed as JWT', () => resigned(secret, { typ: 'JWT' })],
      ['without a type', () => resigned(secret, { typ: undefined })],
      ['with a file path as its kid', () => resigned(Buffer.alloc(32), { kid: '../../dev/null' })],
      ['with SQL as its kid', () => resigned(Buffer.alloc(32), { kid: "' OR 1=1--" })],
      ['with __proto__ as its kid', () => resigned(Buffer.alloc(32), { kid: '__proto__' })],
      ['with a number as its kid', () => resigned(Buffer.alloc(32), { kid: 0 })],
      ['without a kid', () => resigned(secret, { kid: undefined })],
      [
        'with an unknown critical header',
        () => `${encode({ alg: 'HS256', crit: ['x'], x: 1 })}.e30.AA`,
      ],
    ]
    const NEVER_ISSUED: typeof FORGERIES = [
      ['with a later expiry', () => resigned(secret, {}, { exp: 9_999_999_999 })],
      ['with a changed signature', () => changedAtEnd(login.refreshToken)],
      ['followed by a space', () => `${login.refreshToken} `],
    ]

    async function assertRejected(forged: string): Promise<void> {
      const { status, text } = await service.refresh(forged)
      assert.deepEqual([status, text], [401, INVALID_TOKEN])
      assert.equal((await service.logout(forged)).text, '{"success":true,"data":{}}')
      const { json } = await service.get('/session', bearer(login.accessToken))
      assert.equal(json.data.session.id, login.sessionId)
    }
    const storeDigestOf = (token: string) =>
      service.database.rows(
        `update refresh_tokens set token = '${digestOf(token)}'
         where id = '${decodeJwt(login.refreshToken).jti}'`,
      )

    for (const [name, forge] of FORGERIES) {
      test(`a token ${name} is refused, even if its digest is stored, and ends no session`, async () => {
        const forged = await forge()
        await storeDigestOf(forged)
        await assertRejected(forged)
        await storeDigestOf(login.refreshToken)
        await assertRejected(forged)
      })
    }
    for (const [name, forge] of NEVER_ISSUED) {
      test(`a token ${name} is refused, and ends no session`, async () => {
        await assertRejected(await forge())
      })
    }

    test('the genuine token still works, and no reuse or fault was logged', async () => {
      assert.equal((await service.refresh(login.refreshToken)).status, 200)
      const events = service.logged().map(({ event }) => event)
      assert.ok(!events.includes('session.reuse_detected'))
      assert.ok(!events.includes('request.failed'))
    })
  })
}

/** Some bits of the last base64url character are ignored, so the character before it is changed. */
function changedAtEnd(token: string): string {
  const letter = token.at(-2) === 'A' ? 'B' : 'A'
  return `${token.slice(0, -2)}${letter}${token.slice(-1)}`
}
