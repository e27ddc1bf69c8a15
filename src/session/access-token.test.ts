import assert from 'node:assert/strict'
import { generateKeyPairSync, randomBytes, randomUUID } from 'node:crypto'
import { test } from 'node:test'
import { createLocalJWKSet, type JWK, jwtVerify } from 'jose'
import { makeKeys } from '../../test/support/keys.ts'
import { ACCESS_TOKEN_SECONDS } from '../domain/lifetimes.ts'
import type { User } from '../domain/user.ts'
import { createKeys, importKeys, type Keys } from '../keys/key-set.ts'
import { createAccessTokenReader, signAccessToken } from './access-token.ts'

const NOW = new Date('2030-01-01T00:00:00Z')
const ISSUED_AT = NOW.getTime() / 1000
const TOKENS = {
  issuer: 'https://login.example.com',
  audience: 'api',
  accessSeconds: ACCESS_TOKEN_SECONDS,
}
const SESSION = { id: randomUUID(), expiresAt: new Date('2030-01-31T00:00:00Z') }
const USER: User = {
  ...{ id: randomUUID(), email: 'kate@example.com', name: 'Kate O’Neil', role: 'admin' },
  ...{ passwordHash: 'canary-hash', isActive: true, failedLoginAttempts: 3, lockedUntil: null },
  ...{ lockedBy: null, temporaryUntil: null, createdAt: NOW, updatedAt: NOW },
}
const SECRET: JWK = { kty: 'oct', kid: 's', k: randomBytes(32).toString('base64url') }

const KEYS = {
  ES256: generateKeyPairSync('ec', { namedCurve: 'P-256' }),
  EdDSA: generateKeyPairSync('ed25519'),
  RS256: generateKeyPairSync('rsa', { modulusLength: 2048 }),
}

for (const [algorithm, { privateKey }] of Object.entries(KEYS)) {
  test(`a token signed with ${algorithm} verifies with the published keys and has only the documented claims`, async () => {
    const key = privateKey.export({ format: 'jwk' })
    const keys = createKeys(await importKeys({ keys: [key, SECRET] }))
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
      ...{ iat: ISSUED_AT, exp: ISSUED_AT + 3600 },
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
