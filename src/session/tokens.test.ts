import assert from 'node:assert/strict'
import { createPublicKey, generateKeyPairSync, randomBytes, randomUUID } from 'node:crypto'
import { test } from 'node:test'
import { createLocalJWKSet, decodeJwt, decodeProtectedHeader, jwtVerify, SignJWT } from 'jose'
import { makeKeys } from '../../test/support/keys.ts'
import { ISSUER_MAX_BYTES } from '../config/addresses.ts'
import { loadConfig } from '../config/config.ts'
import { ACCESS_TOKEN_SECONDS, REFRESH_TOKEN_SECONDS } from '../domain/lifetimes.ts'
import type { User } from '../domain/user.ts'
import { NAMES_MAX_CHARACTERS } from '../keys/check-keys.ts'
import { createKeys, importKeys, type Keys } from '../keys/key-set.ts'
import { createAccessTokenReader, signAccessToken, toInvalid } from './access-token.ts'
import { issueRefreshToken, readRefreshToken, signRefreshToken } from './refresh-token.ts'

const NOW = new Date('2030-01-01T00:00:00Z')
const ISSUED_AT = NOW.getTime() / 1000
const ISSUER = 'https://login.example.com'
const TOKENS = { issuer: ISSUER, audience: 'api', accessSeconds: ACCESS_TOKEN_SECONDS }
const IDS = { sub: randomUUID(), jti: randomUUID() }
const TIMES = { iat: ISSUED_AT, exp: ISSUED_AT + 3600 }
const SESSION = { id: randomUUID(), expiresAt: new Date('2030-01-31T00:00:00Z'), amr: ['pwd'] }
const USER: User = {
  ...{ id: IDS.sub, email: 'kate@example.com', name: 'Kate O’Neil', role: 'admin' },
  ...{ passwordHash: 'canary-hash', isActive: true, failedLoginAttempts: 3, lockedUntil: null },
  ...{ lockedBy: null, temporaryUntil: null, createdAt: NOW, updatedAt: NOW },
  ...{ factorsVersion: 0, failedSecondSteps: 0, codeOffsetSeconds: null },
}
const KEYS = await makeKeys(NOW)
const { accessKey, refreshKey } = KEYS.signingAt(NOW)
const NO_SECRET = Buffer.alloc(32)
const SECRET = refreshKey.signingKey.export()
const SECRET_JWK = { ...refreshKey.signingKey.export({ format: 'jwk' }), kid: 's' }
const [PUBLISHED = {}] = KEYS.publicJwks().keys
const PUBLIC_JWK = JSON.stringify(PUBLISHED)
const PUBLIC_KEY = createPublicKey({ key: { ...PUBLISHED }, format: 'jwk' })
  .export({ type: 'spki', format: 'pem' })
  .toString()

const HOLDER = { userId: IDS.sub, sessionId: randomUUID() }
const ACCESS = {
  ...{ name: 'access', typ: 'at+jwt', key: accessKey },
  claims: { iss: TOKENS.issuer, aud: TOKENS.audience, sid: HOLDER.sessionId, ...IDS, ...TIMES },
  read: createAccessTokenReader(KEYS, TOKENS),
}
const REFRESH = {
  ...{ name: 'refresh', typ: 'rt+jwt', key: refreshKey },
  // In this order.
  claims: { iss: ISSUER, sub: IDS.sub, sid: HOLDER.sessionId, jti: IDS.jti, ...TIMES },
  read: (token: string, now: Date) => readRefreshToken(KEYS, ISSUER, token, now),
}

type Case = [reason: string, name: string, token: Promise<string> | string]
/** What `String` and `Number` cannot convert. */
const NO_TEXT = { toString: 1, valueOf: 1 }

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
  const CASES: Case[] = [
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
    [forAccess('wrong-algorithm'), 'signed with the public JWK', signWith(PUBLIC_JWK)],
    ['wrong-issuer', 'of another issuer', sign({}, { iss: 'https://evil.example' })],
    [forAccess('wrong-issuer', 'malformed'), 'without an issuer', sign({}, { iss: undefined })],
    [forAccess('wrong-audience'), 'for others', sign({}, { aud: 'another' })],
    [forAccess('wrong-audience', 'read'), 'without an audience', sign({}, { aud: undefined })],
    [forAccess('not-yet-valid'), 'valid in a minute', sign({}, { nbf: ISSUED_AT + 60 })],
    ['expired', 'expired', sign({}, { exp: ISSUED_AT - 60 })],
    ['malformed', 'without an expiry', sign({}, { exp: undefined })],
    ['malformed', 'without an id', sign({}, { jti: undefined })],
    ['malformed', 'without a session', sign({}, { sid: undefined })],
    ['malformed', 'with a user that is no UUID', sign({}, { sub: 'a user' })],
    ['malformed', 'with ids that are no UUIDs', sign({}, { jti: 'a token', sid: 'a session' })],
    ['malformed', 'with SQL as its ids', sign({}, { jti: "' or 1=1--", sid: "' or 1=1--" })],
    ['malformed', 'with numbers as its ids', sign({}, { jti: 1, sid: 1 })],
    ['unknown-key', 'with an object as its key id', unsigned({ kid: NO_TEXT })],
    ...['iss', 'sub', 'sid', 'jti', 'iat', 'exp'].map(
      (name): Case => [
        forAccess('bad-signature', 'malformed'),
        `with an object as its ${name}`,
        `${encode(genuine)}.${encode({ ...kind.claims, [name]: NO_TEXT })}.AAAA`,
      ],
    ),
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

const ACCESS_KEYS = {
  ES256: generateKeyPairSync('ec', { namedCurve: 'P-256' }),
  EdDSA: generateKeyPairSync('ed25519'),
  RS256: generateKeyPairSync('rsa', { modulusLength: 2048 }),
}

for (const [algorithm, { privateKey }] of Object.entries(ACCESS_KEYS)) {
  test(`a token signed with ${algorithm} verifies with the published keys and has only the documented claims`, async () => {
    const key = privateKey.export({ format: 'jwk' })
    const keys = createKeys(await importKeys({ keys: [key, SECRET_JWK] }))
    const { accessKey } = keys.signingAt(NOW)
    const { accessToken } = signAccessToken(accessKey, TOKENS, USER, SESSION, NOW)
    const jwks = createLocalJWKSet(keys.publicJwks())
    const { issuer, audience } = TOKENS
    const rules = { algorithms: [algorithm], typ: 'at+jwt', issuer, audience, currentDate: NOW }
    const { payload, protectedHeader } = await jwtVerify(accessToken, jwks, rules)
    assert.deepEqual(protectedHeader, { alg: algorithm, typ: 'at+jwt', kid: accessKey.keyId })
    const { jti, ...claims } = payload
    assert.match(String(jti), /^[0-9a-f-]{36}$/)
    const { id, email, name, role } = USER
    assert.deepEqual(claims, {
      ...{ iss: issuer, aud: audience, sub: id, sid: SESSION.id, email, name, role },
      ...{ iat: ISSUED_AT, exp: ISSUED_AT + 3600, amr: ['pwd'] },
    })
  })
}

test('a token that was verified is not verified again, until its keys or the time change', async () => {
  const [first, second] = [await makeKeys(NOW), await makeKeys(NOW)]
  let current = first
  const keys: Keys = { ...first, findAccessKey: id => current.findAccessKey(id) }
  const read = createAccessTokenReader(keys, TOKENS)
  const { accessKey } = first.signingAt(NOW)
  const { accessToken } = signAccessToken(accessKey, TOKENS, USER, SESSION, NOW)
  const named = await read(accessToken, NOW)
  assert.deepEqual(named, { kind: 'read', sessionId: SESSION.id, userId: USER.id })
  assert.equal(await read(accessToken, NOW), named, 'the same object')

  const muchLater = new Date(NOW.getTime() + (ACCESS_TOKEN_SECONDS + 30) * 1000)
  assert.deepEqual(await read(accessToken, muchLater), { kind: 'invalid', reason: 'expired' })
  current = second
  assert.deepEqual(await read(accessToken, NOW), { kind: 'invalid', reason: 'unknown-key' })
})

const TOKEN = {
  id: IDS.jti,
  issuedAt: NOW,
  expiresAt: new Date((ISSUED_AT + REFRESH_TOKEN_SECONDS) * 1000),
}

test('a refresh token has an issuer, a user, a session, an id and times, and no other claim', async () => {
  const token = signRefreshToken(refreshKey, ISSUER, HOLDER, TOKEN)
  const header = { alg: 'HS256', typ: 'rt+jwt', kid: refreshKey.keyId }
  assert.deepEqual(decodeProtectedHeader(token), header)
  const exp = ISSUED_AT + 7 * 24 * 3600
  const claims = { iss: ISSUER, sid: HOLDER.sessionId, ...IDS, iat: ISSUED_AT, exp }
  assert.deepEqual(decodeJwt(token), claims)
  // Another implementation signs the same claims to the same token.
  const theirs = new SignJWT(decodeJwt(token)).setProtectedHeader(header)
  assert.equal(await theirs.sign(refreshKey.signingKey), token)
})

test('a token is read as it was issued, with the end of its session if it ends with it', () => {
  const now = new Date(ISSUED_AT * 1000 + 999)
  const inDays = (days: number) => new Date((ISSUED_AT + days * 24 * 3600) * 1000)
  for (const [sessionEnd, expiresAt, readEnd] of [
    [null, inDays(7), null],
    [inDays(30), inDays(7), null],
    [new Date(inDays(3).getTime() + 999), inDays(3), inDays(3)],
  ]) {
    const issued = issueRefreshToken(refreshKey, ISSUER, HOLDER, sessionEnd ?? null, now)
    const { id, digest } = issued.stored
    const row = { id, issuedAt: NOW, expiresAt, keyId: refreshKey.keyId, digest }
    assert.deepEqual(issued.stored, row)
    const read = readRefreshToken(KEYS, ISSUER, issued.token, now)
    assert.partialDeepStrictEqual(read, { kind: 'read', id, ...HOLDER, sessionEnd: readEnd })
    const atItsEnd = readRefreshToken(KEYS, ISSUER, issued.token, issued.stored.expiresAt)
    assert.deepEqual(atItsEnd, { kind: 'invalid', reason: 'expired' })
  }
})

test('a refresh token has at most 500 characters for the longest issuers and key ids', async () => {
  for (const JWT_ISSUER of [
    `https://${'i'.repeat(ISSUER_MAX_BYTES - 8)}`,
    `https://i/${"'".repeat(ISSUER_MAX_BYTES - 10)}`,
  ]) {
    const { issuer } = loadConfig({ JWT_ISSUER }).tokens
    for (const character of ['k', '~', '<', '&']) {
      const kid = character.repeat(NAMES_MAX_CHARACTERS - issuer.length)
      const token = signRefreshToken({ ...refreshKey, keyId: kid }, issuer, HOLDER, TOKEN)
      assert.ok(token.length <= 500, `${token.length} characters`)
      assert.equal(decodeJwt(token).iss, issuer)
    }
  }
})
