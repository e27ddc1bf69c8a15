import assert from 'node:assert/strict'
import { generateKeyPairSync, type KeyObject, randomBytes, verify } from 'node:crypto'
import { describe, test } from 'node:test'
import { createLocalJWKSet, type JWK, jwtVerify } from 'jose'
import { REFRESH_TOKEN_SECONDS } from '../domain/lifetimes.ts'
import {
  createGeneration,
  createKeys,
  importKeys,
  type KeyFile,
  KeyFileError,
  PUBLISH_SECONDS,
  parseKeyFile,
  rotate,
} from './key-set.ts'
import { signToken } from './sign-token.ts'

const NOW = new Date('2030-01-01T00:00:00Z')
const later = (seconds: number) => new Date(NOW.getTime() + seconds * 1000)

const toJwk = ({ privateKey }: { privateKey: KeyObject }) => privateKey.export({ format: 'jwk' })
const EC = toJwk(generateKeyPairSync('ec', { namedCurve: 'P-256' }))
const P384 = toJwk(generateKeyPairSync('ec', { namedCurve: 'P-384' }))
const ED25519 = toJwk(generateKeyPairSync('ed25519'))
const X25519 = toJwk(generateKeyPairSync('x25519'))
const RSA = (bits: number) => toJwk(generateKeyPairSync('rsa', { modulusLength: bits }))
const RSA_2048 = RSA(2048)
const PUBLIC_MEMBERS = ['kty', 'crv', 'x', 'y', 'n', 'e', 'kid', 'alg', 'use']
const SECRET = { kty: 'oct', kid: 's', k: randomBytes(32).toString('base64url') }

async function firstGeneration(): Promise<KeyFile> {
  return { keys: await createGeneration(NOW, 0) }
}

/** The ids of the access key and the refresh key that sign at a moment. */
async function signingAt(file: KeyFile, moment: Date): Promise<string[]> {
  const { accessKey, refreshKey } = createKeys(await importKeys(file)).signingAt(moment)
  return [accessKey.keyId, refreshKey.keyId]
}

const idsOf = (file: KeyFile) => file.keys.map(key => key.kid)

describe('a generation', () => {
  test('has a P-256 key and a secret of 32 bytes, both with an id and times', async () => {
    const { keys } = await firstGeneration()
    const seconds = NOW.getTime() / 1000
    assert.deepEqual(
      keys.map(({ kty, alg, use, iat, nbf }) => ({ kty, alg, use, iat, nbf })),
      [
        { kty: 'EC', alg: 'ES256', use: 'sig', iat: seconds, nbf: seconds },
        { kty: 'oct', alg: 'HS256', use: 'sig', iat: seconds, nbf: seconds },
      ],
    )
    assert.equal(Buffer.from(keys[1]?.k ?? '', 'base64url').length, 32)
  })

  test('has new ids and secrets', async () => {
    const [one, other] = await Promise.all([firstGeneration(), firstGeneration()])
    assert.equal(new Set([...idsOf(one), ...idsOf(other)]).size, 4)
    assert.notEqual(one.keys[0]?.d, other.keys[0]?.d)
    assert.notEqual(one.keys[1]?.k, other.keys[1]?.k)
  })

  test('signs even if the clock is before its start', async () => {
    const file = await firstGeneration()
    assert.deepEqual(await signingAt(file, later(-3600)), idsOf(file))
  })
})

describe('rotation', () => {
  test('publishes the new key at once and signs with it after an hour', async () => {
    const before = await firstGeneration()
    const after = await rotate(before, NOW)
    const added = idsOf(after).slice(2)
    const { keys } = createKeys(await importKeys(after)).publicJwks()
    assert.deepEqual(idsOf({ keys }), [before.keys[0]?.kid, added[0]])
    assert.deepEqual(await signingAt(after, NOW), idsOf(before))
    assert.deepEqual(await signingAt(after, later(3599)), idsOf(before))
    assert.deepEqual(await signingAt(after, later(3600)), added)
  })

  test('removes a superseded key after its last token has expired, and not before', async () => {
    const first = await firstGeneration()
    const second = await rotate(first, NOW)
    const superseded = later(PUBLISH_SECONDS)
    const lastTokenEnds = superseded.getTime() + REFRESH_TOKEN_SECONDS * 1000
    const third = await rotate(second, new Date(lastTokenEnds))
    assert.deepEqual(idsOf(third).slice(0, 4), idsOf(second))
    const fourth = await rotate(second, new Date(lastTokenEnds + (PUBLISH_SECONDS + 1) * 1000))
    assert.deepEqual(idsOf(fourth).slice(0, 2), idsOf(second).slice(2))
    assert.equal(fourth.keys.length, 4)
  })

  test('never removes the key that signs, even if it is old', async () => {
    const old = await firstGeneration()
    const file = await rotate(old, later(10 * 365 * 24 * 3600))
    assert.deepEqual(idsOf(file).slice(0, 2), idsOf(old))
  })

  test("supersedes an operator's keys that have no times", async () => {
    const file = await rotate({ keys: [ED25519, SECRET] }, NOW)
    assert.equal(file.keys.length, 4)
    assert.deepEqual(await signingAt(file, later(PUBLISH_SECONDS)), idsOf(file).slice(2))
  })
})

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
