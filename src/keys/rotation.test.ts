import assert from 'node:assert/strict'
import { generateKeyPairSync, randomBytes } from 'node:crypto'
import { describe, test } from 'node:test'
import { REFRESH_TOKEN_SECONDS } from '../domain/lifetimes.ts'
import { createKeys, importKeys, type KeyFile } from './key-set.ts'
import { createFirstKeys, PUBLISH_SECONDS, rotate } from './rotation.ts'

const NOW = new Date('2030-01-01T00:00:00Z')
const later = (seconds: number) => new Date(NOW.getTime() + seconds * 1000)
const TEN_YEARS = 10 * 365 * 24 * 3600

/** The ids of the access key and the refresh key that sign at a moment. */
async function signingAt(file: KeyFile, moment: Date): Promise<string[]> {
  const { accessKey, refreshKey } = createKeys(await importKeys(file)).signingAt(moment)
  return [accessKey.keyId, refreshKey.keyId]
}

async function encryptionAt(file: KeyFile, moment: Date): Promise<string | undefined> {
  return createKeys(await importKeys(file)).encryptionAt(moment)?.keyId
}

const idsOf = (file: KeyFile, use = 'sig') =>
  file.keys.filter(key => key.use === use).map(key => key.kid)
const withoutEncryption = ({ keys }: KeyFile) => ({ keys: keys.filter(key => key.use !== 'enc') })
const newEncryptionKey = (kid: string, nbf?: number) => ({
  ...{ kty: 'oct', use: 'enc', alg: 'A256GCM', k: randomBytes(32).toString('base64url'), kid },
  ...(nbf && { nbf }),
})

describe('the first keys', () => {
  test('are a P-256 key and two secrets of 32 bytes, each with an id and times', async () => {
    const { keys } = await createFirstKeys(NOW)
    const seconds = NOW.getTime() / 1000
    const times = { iat: seconds, nbf: seconds }
    assert.deepEqual(
      keys.map(({ kty, alg, use, iat, nbf }) => ({ kty, alg, use, iat, nbf })),
      [
        { kty: 'EC', alg: 'ES256', use: 'sig', ...times },
        { kty: 'oct', alg: 'HS256', use: 'sig', ...times },
        { kty: 'oct', alg: 'A256GCM', use: 'enc', ...times },
      ],
    )
    for (const { k = '' } of keys.slice(1)) assert.equal(Buffer.from(k, 'base64url').length, 32)
  })

  test('have new ids and secrets', async () => {
    const files = await Promise.all([createFirstKeys(NOW), createFirstKeys(NOW)])
    const keys = files.flatMap(file => file.keys)
    assert.equal(new Set(keys.map(key => key.kid)).size, 6)
    assert.equal(new Set(keys.map(key => key.d ?? key.k)).size, 6)
  })

  test('sign and encrypt even if the clock is before their start', async () => {
    const file = await createFirstKeys(NOW)
    assert.deepEqual(await signingAt(file, later(-3600)), idsOf(file))
    assert.deepEqual([await encryptionAt(file, later(-3600))], idsOf(file, 'enc'))
  })
})

describe('rotation', () => {
  test('publishes the new key at once and signs with it after an hour', async () => {
    const before = await createFirstKeys(NOW)
    const after = await rotate(before, NOW)
    const added = idsOf(after).slice(2)
    const { keys } = createKeys(await importKeys(after)).publicJwks()
    assert.deepEqual(idsOf({ keys }), [before.keys[0]?.kid, added[0]])
    assert.deepEqual(await signingAt(after, NOW), idsOf(before))
    assert.deepEqual(await signingAt(after, later(3599)), idsOf(before))
    assert.deepEqual(await signingAt(after, later(3600)), added)
  })

  test('removes a superseded key after its last token has expired, and not before', async () => {
    const first = await createFirstKeys(NOW)
    const second = await rotate(first, NOW)
    const superseded = later(PUBLISH_SECONDS)
    const lastTokenEnds = superseded.getTime() + REFRESH_TOKEN_SECONDS * 1000
    const third = await rotate(second, new Date(lastTokenEnds))
    assert.deepEqual(idsOf(third).slice(0, 4), idsOf(second))
    const fourth = await rotate(second, new Date(lastTokenEnds + (PUBLISH_SECONDS + 1) * 1000))
    assert.deepEqual(idsOf(fourth).slice(0, 2), idsOf(second).slice(2))
    assert.equal(idsOf(fourth).length, 4)
  })

  test('never removes the key that signs, even if it is old', async () => {
    const old = await createFirstKeys(NOW)
    const file = await rotate(old, later(TEN_YEARS))
    assert.deepEqual(idsOf(file).slice(0, 2), idsOf(old))
  })

  test("supersedes an operator's keys that have no times", async () => {
    const ed25519 = generateKeyPairSync('ed25519').privateKey.export({ format: 'jwk' })
    const secret = { kty: 'oct', kid: 's', k: randomBytes(32).toString('base64url') }
    const file = await rotate({ keys: [ed25519, secret] }, NOW)
    assert.deepEqual(await signingAt(file, NOW), await signingAt({ keys: [ed25519, secret] }, NOW))
    assert.deepEqual(await signingAt(file, later(PUBLISH_SECONDS)), idsOf(file))
  })
})

describe('rotation and the encryption key', () => {
  test('one that is missing is added and encrypts at once, before the new keys sign', async () => {
    const old = withoutEncryption(await createFirstKeys(NOW))
    assert.equal(await encryptionAt(old, NOW), undefined)
    const file = await rotate(old, later(60))
    assert.deepEqual([await encryptionAt(file, later(60))], idsOf(file, 'enc'))
    assert.deepEqual(await signingAt(file, later(60)), idsOf(old))
  })

  test('one that is there stays, and none is added', async () => {
    const first = await createFirstKeys(NOW)
    const file = await rotate(first, NOW)
    assert.deepEqual(idsOf(file, 'enc'), idsOf(first, 'enc'))
  })

  test('it neither supersedes a secret nor is superseded, however old it is', async () => {
    const { keys } = withoutEncryption(await createFirstKeys(NOW))
    const start = NOW.getTime() / 1000
    const own = [newEncryptionKey('old'), newEncryptionKey('new', start + 3600)]
    let file: KeyFile = { keys: [...keys, ...own] }
    // Superseded for ten years by an encryption key only.
    file = await rotate(file, later(TEN_YEARS))
    assert.deepEqual(idsOf(file).slice(0, 2), idsOf({ keys }))
    // Superseded for ten years by a generation too.
    file = await rotate(file, later(2 * TEN_YEARS))
    assert.deepEqual([idsOf(file).length, idsOf(file, 'enc')], [4, ['old', 'new']])
  })

  test('of several, the newest whose start has passed encrypts', async () => {
    const { keys } = withoutEncryption(await createFirstKeys(NOW))
    const start = NOW.getTime() / 1000
    const own = [newEncryptionKey('new', start + 3600), newEncryptionKey('old', start)]
    const file = { keys: [...keys, ...own] }
    assert.equal(await encryptionAt(file, later(3599)), 'old')
    assert.equal(await encryptionAt(file, later(3600)), 'new')
  })
})
