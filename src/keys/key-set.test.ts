import assert from 'node:assert/strict'
import { generateKeyPairSync, type KeyObject, randomBytes, verify } from 'node:crypto'
import { describe, test } from 'node:test'
import { createLocalJWKSet, type JWK, jwtVerify } from 'jose'
import { createKeys, importKeys, KeyFileError, parseKeyFile } from './key-set.ts'
import { signToken } from './sign-token.ts'

const NOW = new Date('2030-01-01T00:00:00Z')

const toJwk = ({ privateKey }: { privateKey: KeyObject }) => privateKey.export({ format: 'jwk' })
const EC = toJwk(generateKeyPairSync('ec', { namedCurve: 'P-256' }))
const P384 = toJwk(generateKeyPairSync('ec', { namedCurve: 'P-384' }))
const ED25519 = toJwk(generateKeyPairSync('ed25519'))
const X25519 = toJwk(generateKeyPairSync('x25519'))
const RSA = (bits: number) => toJwk(generateKeyPairSync('rsa', { modulusLength: bits }))
const RSA_2048 = RSA(2048)
const PUBLIC_MEMBERS = ['kty', 'crv', 'x', 'y', 'n', 'e', 'kid', 'alg', 'use']
const SECRET = { kty: 'oct', kid: 's', k: randomBytes(32).toString('base64url') }
const ENCRYPTING = {
  ...{ kty: 'oct', use: 'enc', alg: 'A256GCM', kid: 'e' },
  k: randomBytes(32).toString('base64url'),
}

describe("an operator's own key", () => {
  const ACCEPTED: [kind: string, key: JWK, algorithm: string][] = [
    ['P-256', EC, 'ES256'],
    ['Ed25519', ED25519, 'EdDSA'],
    ['RSA of 2048 bits', RSA_2048, 'RS256'],
    ['RSA with another algorithm in its JWK', { ...RSA_2048, alg: 'PS512', use: 'sig' }, 'RS256'],
    ['P-256 with a URL as id', { ...EC, kid: 'https://a.example/'.padEnd(64, 'k') }, 'ES256'],
  ]
  for (const [kind, key, algorithm] of ACCEPTED) {
    test(`of ${kind} signs, and only its public part is published and verifies`, async () => {
      const keySet = await importKeys({ keys: [key, SECRET] })
      const keys = createKeys(keySet)
      const { accessKey } = keys.signingAt(NOW)
      assert.equal(accessKey.algorithm, algorithm)
      assert.ok(accessKey.keyId.length >= 1)
      if (key.kid) assert.equal(accessKey.keyId, key.kid)
      const token = signToken(accessKey, 'at+jwt', {})
      const jwks = keys.publicJwks()
      await jwtVerify(token, createLocalJWKSet(jwks), { algorithms: [algorithm] })
      for (const member of Object.keys(jwks.keys[0] ?? {})) {
        assert.ok(PUBLIC_MEMBERS.includes(member), member)
      }
    })
  }

  const { d: _, ...publicOnly } = EC
  const withKey = (change: object, key: JWK = EC) => [{ ...key, ...change }, SECRET]
  const withSecret = (change: object) => [EC, { ...SECRET, ...change }]
  const withEncrypting = (change: object) => [EC, SECRET, { ...ENCRYPTING, ...change }]
  const k = (bytes: Buffer) => bytes.toString('base64url')
  const REFUSED: [why: string, keys: unknown[], message: RegExp][] = [
    ['a public key', [publicOnly, SECRET], /key 1: it is a public key/],
    ['P-384', [P384, SECRET], /key 1: .*P-256, Ed25519 or RSA/],
    ['X25519', [X25519, SECRET], /key 1: .*P-256, Ed25519 or RSA/],
    ['RSA of 1024 bits', [RSA(1024), SECRET], /key 1: .*3072 bits/],
    ['a damaged modulus', withKey({ n: RSA(2048).n }, RSA_2048), /key 1: it cannot be read/],
    ['a private part of another key', withKey({ d: EC.x }), /key 1: it cannot be read/],
    ['a short secret', withSecret({ k: k(randomBytes(31)) }), /32 bytes/],
    ['a placeholder', withSecret({ k: k(Buffer.alloc(64, 'x')) }), /random/],
    ['a secret without an id', withSecret({ kid: undefined }), /key 2: a secret needs a "kid"/],
    ['an id that is too long', withSecret({ kid: 'k'.repeat(65) }), /key 2: .*1 to 64/],
    ['an id that JSON escapes', withSecret({ kid: '"\u0001' }), /key 2: .*1 to 64/],
    ['a number as an id', withKey({ kid: 1 }), /key 1: .*1 to 64/],
    ['text as a time', withKey({ nbf: '2030-01-01' }), /key 1: .*seconds since 1970/],
    ['the same id twice', withKey({ kid: 's' }), /same "kid"/],
    ['the same key twice', [EC, EC, SECRET], /same "kid"/],
    ['no secret', [EC], /no secret/],
    ['no private key', [SECRET], /no private key/],
    ['no secret but a key that encrypts', [EC, ENCRYPTING], /no secret .*"use": "sig"/],
    ['a key that encrypts of 31 bytes', withEncrypting({ k: k(randomBytes(31)) }), /key 3: .*32/],
    ['one of 33 bytes', withEncrypting({ k: k(randomBytes(33)) }), /key 3: .*exactly 32 bytes/],
    ['one without an id', withEncrypting({ kid: undefined }), /key 3: .*"kid"/],
    ['one with the id of a secret', withEncrypting({ kid: 's' }), /same "kid"/],
    ['one with the bytes of a secret', withEncrypting({ k: SECRET.k }), /"use": "enc" needs a "k"/],
    ['one for another cipher', withEncrypting({ alg: 'A128GCM' }), /key 3: write .*"A256GCM"/],
    ['one without a cipher', withEncrypting({ alg: undefined }), /key 3: write .*"A256GCM"/],
    ['one that would sign', withEncrypting({ alg: 'HS256' }), /key 3: write .*"A256GCM"/],
    ['a cipher of a signing key', withEncrypting({ use: 'sig' }), /key 3: write .*"HS256"/],
    ['a cipher without a use', withEncrypting({ use: undefined }), /key 3: write .*"HS256"/],
    ['a secret for HS512', withSecret({ alg: 'HS512' }), /key 2: write .*"HS256"/],
    ['a secret for another use', withSecret({ use: 'mac' }), /key 2: write .*"HS256"/],
    ['a P-256 key that encrypts', withKey({ use: 'enc' }), /key 1: only .*"oct" encrypts; write/],
    ['null', [null], /key 1: it cannot be read/],
    ['a list as a secret', withSecret({ k: [1, 2] }), /key 2: /],
  ]
  for (const [why, keys, message] of REFUSED) {
    test(`is refused: ${why}; the error quotes nothing of the key`, async () => {
      const error = await importKeys(parseKeyFile(JSON.stringify({ keys }))).then(
        () => assert.fail('it was accepted'),
        (reason: unknown) => reason,
      )
      assert.ok(error instanceof KeyFileError)
      assert.match(error.message, message)
      for (const key of [...keys, EC, SECRET, RSA_2048]) {
        for (const member of ['d', 'k', 'p', 'q', 'n', 'x']) {
          const value = Object(key)[member]
          if (typeof value === 'string') assert.ok(!error.message.includes(value), member)
        }
      }
    })
  }
})

describe('a key that encrypts', () => {
  test('does not sign, and is not published', async () => {
    const keySet = await importKeys({ keys: [EC, SECRET, ENCRYPTING] })
    const keys = createKeys(keySet)
    const key = keys.findEncryptionKey('e')
    assert.deepEqual([key?.algorithm, key?.secretKey.symmetricKeySize], ['A256GCM', 32])
    assert.equal(keys.encryptionAt(NOW), key)
    for (const find of [keys.findRefreshKey, keys.findAccessKey]) assert.equal(find('e'), null)
    const { accessKey, refreshKey } = keys.signingAt(NOW)
    for (const { keyId } of [accessKey, refreshKey]) {
      assert.equal(keys.findEncryptionKey(keyId), null)
    }
    assert.equal(keys.publicJwks().keys.length, 1)
    assert.ok(!JSON.stringify(keys.publicJwks()).includes('"e"'))
  })

  test('may be missing', async () => {
    const keys = createKeys(await importKeys({ keys: [EC, SECRET] }))
    assert.deepEqual([keys.encryptionAt(NOW), keys.findEncryptionKey('s')], [null, null])
  })

  test('counts for the hash of all keys', async () => {
    const hashOf = async (...keys: JWK[]) =>
      createKeys(await importKeys({ keys: [EC, SECRET, ...keys] })).hash()
    const other = { ...ENCRYPTING, k: randomBytes(32).toString('base64url') }
    const hashes = await Promise.all([hashOf(), hashOf(ENCRYPTING), hashOf(other)])
    assert.equal(new Set(hashes).size, 3)
    assert.equal(await hashOf(ENCRYPTING), hashes[1])
  })
})

for (const [uses, alg, use] of [
  ['no "use" and no "alg"', undefined, undefined],
  ['"use" alone', undefined, 'sig'],
  ['"alg" alone', 'HS256', undefined],
  ['both', 'HS256', 'sig'],
]) {
  test(`a secret with ${uses} signs refresh tokens`, async () => {
    const keys = await importKeys({
      keys: [EC, { ...SECRET, ...(alg && { alg }), ...(use && { use }) }],
    })
    assert.deepEqual([keys.refreshKeys.length, keys.encryptionKeys.length], [1, 0])
  })
}

test('a key file is refused if it is no JWK Set; the error quotes nothing of it', () => {
  for (const [text, message] of [
    ['', 'it is not JSON'],
    ['-----BEGIN PRIVATE KEY-----\nMIGHAgEAMBMG', 'it is not JSON'],
    ['null', 'it is not a JWK Set: {"keys": […]}'],
    ['[{"k": "canary"}]', 'it is not a JWK Set: {"keys": […]}'],
    ['{"keys": {"k": "canary"}}', 'it is not a JWK Set: {"keys": […]}'],
  ] as const) {
    assert.throws(() => parseKeyFile(text), new KeyFileError(message))
  }
})

test('a P-256 signature is two numbers of 32 bytes, also when one of them is short', () => {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const key = { keyId: 'k', algorithm: 'ES256', signingKey: privateKey } as const
  let short = 0
  // One number in 256 begins with a zero byte, which its encoding leaves out.
  for (let i = 0; short < 8 && i < 20_000; i++) {
    const [header, claims, signature = ''] = signToken(key, 'at+jwt', { i }).split('.')
    const bytes = Buffer.from(signature, 'base64url')
    assert.equal(bytes.length, 64)
    const signed = Buffer.from(`${header}.${claims}`)
    const verifying = { key: publicKey, dsaEncoding: 'ieee-p1363' } as const
    assert.ok(verify('sha256', signed, verifying, bytes))
    if (bytes[0] === 0 || bytes[32] === 0) short++
  }
  assert.equal(short, 8)
})
