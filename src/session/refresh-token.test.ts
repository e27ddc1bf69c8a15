import assert from 'node:assert/strict'
import { randomBytes, randomUUID } from 'node:crypto'
import { test } from 'node:test'
import { decodeJwt, decodeProtectedHeader, type JWK, jwtVerify, SignJWT } from 'jose'
import { ISSUER_MAX_BYTES } from '../config/addresses.ts'
import { loadConfig } from '../config/config.ts'
import { REFRESH_TOKEN_SECONDS } from '../domain/lifetimes.ts'
import { createGeneration, createKeys, importKeys, type RefreshKey } from '../keys/key-set.ts'
import { issueRefreshToken, readRefreshToken, signRefreshToken } from './refresh-token.ts'

const ISSUER = 'https://login.example.com'
const USER_ID = randomUUID()
const ISSUED_AT = 1_893_456_000
const TOKEN = {
  id: randomUUID(),
  issuedAt: new Date(ISSUED_AT * 1000),
  expiresAt: new Date((ISSUED_AT + REFRESH_TOKEN_SECONDS) * 1000),
}
const [ACCESS_KEY = {}, SECRET = {}] = await createGeneration(new Date(), 0)
const KEY = await importSecret({ ...SECRET, kid: 'k1' })
const KEYS = createKeys({ accessKeys: [], refreshKeys: [KEY] })

async function importSecret(secret: JWK): Promise<RefreshKey> {
  const [key] = (await importKeys({ keys: [ACCESS_KEY, secret] })).refreshKeys
  assert.ok(key)
  return key
}

test('a refresh token has an issuer, a user, an id and times, and no other claim', async () => {
  const token = signRefreshToken(KEY, ISSUER, USER_ID, TOKEN)
  assert.deepEqual(decodeProtectedHeader(token), { alg: 'HS256', typ: 'rt+jwt', kid: 'k1' })
  assert.deepEqual(decodeJwt(token), {
    iss: ISSUER,
    sub: USER_ID,
    jti: TOKEN.id,
    iat: ISSUED_AT,
    exp: ISSUED_AT + 7 * 24 * 3600,
  })
  const currentDate = new Date(ISSUED_AT * 1000)
  await jwtVerify(token, KEY.signingKey, { currentDate, algorithms: ['HS256'], typ: 'rt+jwt' })
  await assert.rejects(jwtVerify(token, randomBytes(32), { currentDate }))
  // Another implementation signs the same claims to the same token.
  const header = { alg: 'HS256', typ: 'rt+jwt', kid: 'k1' }
  const theirs = new SignJWT(decodeJwt(token)).setProtectedHeader(header)
  assert.equal(await theirs.sign(KEY.signingKey), token)
})

test('a token is read as it was issued, with the end of its session if it ends with it', () => {
  const now = new Date(ISSUED_AT * 1000 + 999)
  const inDays = (days: number) => new Date((ISSUED_AT + days * 24 * 3600) * 1000)
  for (const [sessionEnd, expiresAt, readEnd] of [
    [null, inDays(7), null],
    [inDays(30), inDays(7), null],
    [new Date(inDays(3).getTime() + 999), inDays(3), inDays(3)],
  ]) {
    const issued = issueRefreshToken(KEY, ISSUER, USER_ID, sessionEnd ?? null, now)
    const { id, digest } = issued.stored
    const row = { id, issuedAt: new Date(ISSUED_AT * 1000), expiresAt, keyId: 'k1', digest }
    assert.deepEqual(issued.stored, row)
    const read = readRefreshToken(KEYS, ISSUER, issued.token, now)
    assert.partialDeepStrictEqual(read, { kind: 'read', id, userId: USER_ID, sessionEnd: readEnd })
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
    for (const kid of ['k'.repeat(64), '~'.repeat(64), '<&>'.repeat(21)]) {
      const token = signRefreshToken(await importSecret({ ...SECRET, kid }), issuer, USER_ID, TOKEN)
      assert.ok(token.length <= 500, `${token.length} characters`)
      assert.equal(decodeJwt(token).iss, issuer)
    }
  }
})
