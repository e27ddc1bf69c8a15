import assert from 'node:assert/strict'
import { createPublicKey, randomBytes, randomUUID } from 'node:crypto'
import { test } from 'node:test'
import { SignJWT } from 'jose'
import { makeKeys } from '../../test/support/keys.ts'
import { createAccessTokenReader, toInvalid } from './access-token.ts'
import { readRefreshToken } from './refresh-token.ts'

const NOW = new Date('2030-01-01T00:00:00Z')
const ISSUED_AT = NOW.getTime() / 1000
const TOKENS = { issuer: 'https://login.example.com', audience: 'api', accessSeconds: 3600 }
const IDS = { sub: randomUUID(), jti: randomUUID() }
const TIMES = { iat: ISSUED_AT, exp: ISSUED_AT + 3600 }
const KEYS = await makeKeys(NOW)
const { accessKey, refreshKey } = KEYS.signingAt(NOW)
const NO_SECRET = Buffer.alloc(32)
const SECRET = refreshKey.signingKey.export()
const [PUBLISHED = {}] = KEYS.publicJwks().keys
const PUBLIC_KEY = createPublicKey({ key: { ...PUBLISHED }, format: 'jwk' })
  .export({ type: 'spki', format: 'pem' })
  .toString()

const ACCESS = {
  ...{ name: 'access', typ: 'at+jwt', key: accessKey },
  claims: { iss: TOKENS.issuer, aud: TOKENS.audience, sid: randomUUID(), ...IDS, ...TIMES },
  read: createAccessTokenReader(KEYS, TOKENS),
}
const REFRESH = {
  ...{ name: 'refresh', typ: 'rt+jwt', key: refreshKey },
  claims: { iss: TOKENS.issuer, ...IDS, ...TIMES },
  read: (token: string, now: Date) => readRefreshToken(KEYS, TOKENS.issuer, token, now),
}

const encode = (part: object) => Buffer.from(JSON.stringify(part)).toString('base64url')

for (const [kind, other] of [
  [ACCESS, REFRESH],
  [REFRESH, ACCESS],
] as const) {
  const { typ, key } = kind
  const genuine = { alg: key.algorithm, typ, kid: key.keyId }
  const sign = (header: object, changed: object = {}, { typ, key, claims } = kind) =>
    new SignJWT({ ...claims, ...changed })
      .setProtectedHeader({ alg: key.algorithm, typ, kid: key.keyId, ...header })
      .sign(key.signingKey)
  const signWith = (secret: string | Buffer, header: object = {}) =>
    new SignJWT(kind.claims)
      .setProtectedHeader({ ...genuine, alg: 'HS256', ...header })
      .sign(Buffer.from(secret))
  const unsigned = (header: object) =>
    `${encode({ ...genuine, ...header })}.${encode(kind.claims)}.`
  const resultOf = async (token: string) => {
    const read = await kind.read(token, NOW)
    return read.kind === 'invalid' ? read.reason : read.kind
  }
  const valid = await sign({})
  /** A refresh token is signed again from the claims that it may have. */
  const forAccess = (reason: string, forRefresh = 'bad-signature') =>
    kind === ACCESS ? reason : forRefresh
  const CASES: [reason: string, name: string, token: Promise<string> | string][] = [
    ['read', 'valid', valid],
    ['wrong-type', 'of another type', sign({ typ: 'JWT' })],
    ['wrong-type', 'of the type of the other kind', sign({ typ: other.typ })],
    ['wrong-type', 'without a type', sign({ typ: undefined })],
    ['wrong-type', 'of the other kind', sign({}, {}, other)],
    ['wrong-type', 'of the other kind, with our key id', sign({ kid: key.keyId }, {}, other)],
    ['wrong-algorithm', 'of another algorithm', sign({ typ, kid: key.keyId }, {}, other)],
    ['wrong-algorithm', 'of HS512, with our secret', signWith(SECRET, { alg: 'HS512' })],
    ['wrong-algorithm', 'of the algorithm none', unsigned({ alg: 'none' })],
    ['wrong-algorithm', 'of the algorithm None', unsigned({ alg: 'None' })],
    [forAccess('malformed', 'wrong-algorithm'), 'of no algorithm', unsigned({ alg: undefined })],
    ['unknown-key', 'of an unknown key', sign({ kid: 'unknown' })],
    ['unknown-key', 'without a key id', sign({ kid: undefined })],
    ['unknown-key', 'with a number as its key id', signWith(NO_SECRET, { kid: 0 })],
    ['unknown-key', 'with a path as its key id', signWith(NO_SECRET, { kid: '../../dev/null' })],
    ['unknown-key', 'with SQL as its key id', signWith(NO_SECRET, { kid: "' OR 1=1--" })],
    ['unknown-key', 'with __proto__ as its key id', signWith(NO_SECRET, { kid: '__proto__' })],
    ['unknown-key', 'of the key of the other kind', sign({ kid: other.key.keyId })],
    ['bad-signature', 'changed', valid.replace(/.{4}$/, 'AAAA')],
    ['bad-signature', 'unsigned', unsigned({})],
    [forAccess('wrong-algorithm'), 'signed with another secret', signWith(randomBytes(32))],
    [forAccess('wrong-algorithm'), 'signed with the public key', signWith(PUBLIC_KEY)],
    [
      forAccess('wrong-algorithm'),
      'signed with the published key',
      signWith(JSON.stringify(PUBLISHED)),
    ],
    ['wrong-issuer', 'of another issuer', sign({}, { iss: 'https://evil.example' })],
    [forAccess('wrong-issuer'), 'without an issuer', sign({}, { iss: undefined })],
    [forAccess('wrong-audience'), 'for others', sign({}, { aud: 'another' })],
    [forAccess('wrong-audience', 'read'), 'without an audience', sign({}, { aud: undefined })],
    [forAccess('not-yet-valid'), 'valid in a minute', sign({}, { nbf: ISSUED_AT + 60 })],
    ['expired', 'expired', sign({}, { exp: ISSUED_AT - 60 })],
    [forAccess('malformed'), 'without an expiry', sign({}, { exp: undefined })],
    ['malformed', 'without an id', sign({}, { jti: undefined })],
    [forAccess('malformed', 'read'), 'without a session', sign({}, { sid: undefined })],
    ['malformed', 'with a user that is no UUID', sign({}, { sub: 'a user' })],
    ['malformed', 'with ids that are no UUIDs', sign({}, { jti: 'a token', sid: 'a session' })],
    ['malformed', 'with SQL as its ids', sign({}, { jti: "' or 1=1--", sid: "' or 1=1--" })],
    ['malformed', 'with numbers as its ids', sign({}, { jti: 1, sid: 1 })],
    [forAccess('malformed'), 'with a critical header', unsigned({ crit: ['x'], x: true })],
    ['bad-signature', 'with claims as they are', unsigned({ crit: ['b64'], b64: false })],
    ['malformed', 'no token', 'no token'],
    ['malformed', 'empty', ''],
    ['malformed', 'without claims', valid.replace(/\..*/, '.x.x')],
  ]

  test(`the log says why a token for ${kind.name} is invalid`, async () => {
    for (const [reason, name, token] of CASES) {
      assert.equal(await resultOf(await token), reason, name)
    }
  })

  test(`a token for ${kind.name} of more than 8,192 characters is not parsed`, async () => {
    const token = await sign({ kid: 'unknown' })
    assert.equal(await resultOf(token.padEnd(8_192, 'A')), 'unknown-key')
    assert.equal(await resultOf(token.padEnd(8_193, 'A')), 'malformed')
  })
}

test('a fault of the verification is not a reason against the token', () => {
  const fault = new Error('out of memory')
  assert.throws(() => toInvalid(fault, ''), fault)
})
