// The key file: a private JWK Set of generations, each with an asymmetric key for access tokens and a secret for refresh
// tokens; and a key that encrypts the secrets of second factors. A key signs or encrypts from its `nbf` on; it verifies
// or decrypts as soon as it is in the file.
import { createPrivateKey, createSecretKey, type KeyObject } from 'node:crypto'
import { type CryptoKey, calculateJwkThumbprint, importJWK, type JWK, jwtVerify } from 'jose'
import { fingerprintOf } from '../system/identifiers.ts'
import { type AccessAlgorithm, type SigningKey, signToken } from './sign-token.ts'

/** `usedFrom` in seconds since 1970. `fingerprint` tells two keys with the same id apart. */
type FileKey = { keyId: string; usedFrom: number; fingerprint: string }
export type AccessKey = FileKey &
  SigningKey & {
    algorithm: AccessAlgorithm
    publicKey: CryptoKey
    publicJwk: JWK
  }
export type RefreshKey = FileKey & SigningKey & { algorithm: 'HS256' }
/** It has no `signingKey`, so that no function that signs accepts it. */
export type EncryptionKey = FileKey & { algorithm: 'A256GCM'; secretKey: KeyObject }

export type Keys = {
  signingAt(now: Date): { accessKey: AccessKey; refreshKey: RefreshKey }
  findAccessKey(keyId: string): AccessKey | null
  findRefreshKey(keyId: string): RefreshKey | null
  /** The key that encrypts; null if the file has none. */
  encryptionAt(now: Date): EncryptionKey | null
  findEncryptionKey(keyId: string): EncryptionKey | null
  publicJwks(): { keys: JWK[] }
  /** The same number wherever the same keys are known. */
  hash(): number
}

export type KeySet = {
  accessKeys: AccessKey[]
  refreshKeys: RefreshKey[]
  encryptionKeys: EncryptionKey[]
}
export const NO_KEYS: KeySet = { accessKeys: [], refreshKeys: [], encryptionKeys: [] }

export type StoredKey = JWK & { iat?: number; nbf?: number }
export type KeyFile = { keys: StoredKey[] }

const SECRET_MIN_BYTES = 32
const A256GCM_BYTES = 32
const RSA_MIN_BITS = 2048
/** A key that comes into use must have 128 bits of security, as the other kinds of keys have. */
const RSA_NEW_MIN_BITS = 3072
/** Only characters that take one byte in the JSON of a token, because its length is limited. */
const KEY_ID = /^[!#-[\]-~]{1,64}$/

/** Its message tells the operator what is wrong with a key file. */
export class KeyFileError extends Error {}

/** Says which RSA key is too short for new use; null if there is none. Keys that are in use stay valid. */
export function findShortKey({ accessKeys }: KeySet, isInUse: (keyId: string) => boolean) {
  for (const { keyId, publicJwk } of accessKeys) {
    const bits = bitsOf(publicJwk.n)
    if (publicJwk.kty !== 'RSA' || bits >= RSA_NEW_MIN_BITS || isInUse(keyId)) continue
    return `the RSA key ${keyId} has ${bits} bits; a new one needs ${RSA_NEW_MIN_BITS}`
  }
  return null
}

export function allKeysOf({ accessKeys, refreshKeys, encryptionKeys }: KeySet): FileKey[] {
  return [...accessKeys, ...refreshKeys, ...encryptionKeys]
}

/** `keySet` is read again for each call: its keys may change. */
export function createKeys(keySet: Readonly<KeySet>): Keys {
  return {
    signingAt(now) {
      const accessKey = newestInUse(keySet.accessKeys, now)
      const refreshKey = newestInUse(keySet.refreshKeys, now)
      if (!accessKey || !refreshKey) throw new KeyFileError('it has no key')
      return { accessKey, refreshKey }
    },
    findAccessKey: keyId => findKey(keySet.accessKeys, keyId),
    findRefreshKey: keyId => findKey(keySet.refreshKeys, keyId),
    encryptionAt: now => newestInUse(keySet.encryptionKeys, now),
    findEncryptionKey: keyId => findKey(keySet.encryptionKeys, keyId),
    publicJwks: () => ({ keys: keySet.accessKeys.map(key => key.publicJwk) }),
    hash: () => hashOf(keySet),
  }
}

function findKey<K extends FileKey>(keys: K[], keyId: string): K | null {
  return keys.find(key => key.keyId === keyId) ?? null
}

/** 48 bits, which a number of JavaScript and of Prometheus holds exactly. */
function hashOf(keySet: KeySet): number {
  const known = allKeysOf(keySet).map(key => `${key.keyId} ${key.fingerprint}`)
  return Number.parseInt(fingerprintOf(known.toSorted().join()).slice(0, 12), 16)
}

/** The newest key whose start has passed. If none has started, the clock is behind: the first key is used. */
function newestInUse<K extends FileKey>(keys: K[], now: Date): K | null {
  const oldestFirst = keys.toSorted((a, b) => a.usedFrom - b.usedFrom)
  const started = oldestFirst.findLast(key => key.usedFrom * 1000 <= now.getTime())
  return started ?? oldestFirst[0] ?? null
}

/** Null: a key that this service does not use. Each purpose has its own keys (RFC 7517, sections 4.2 and 4.4). */
export function purposeOf({ kty, use = 'sig', alg }: StoredKey) {
  if (kty === 'oct' && use === 'enc' && alg === 'A256GCM') return 'encryption'
  if (use !== 'sig') return null
  if (kty !== 'oct') return 'access'
  return alg === undefined || alg === 'HS256' ? 'refresh' : null
}

export function usedFrom(key: StoredKey): number {
  return key.nbf ?? key.iat ?? 0
}

export function parseKeyFile(text: string): KeyFile {
  let parsed: unknown
  try {
    parsed = JSON.parse(text)
  } catch {
    throw new KeyFileError('it is not JSON')
  }
  const keys =
    parsed !== null && typeof parsed === 'object' && 'keys' in parsed ? parsed.keys : null
  if (!Array.isArray(keys)) throw new KeyFileError('it is not a JWK Set: {"keys": […]}')
  return { keys }
}

export async function importKeys({ keys }: KeyFile): Promise<KeySet> {
  const keySet: KeySet = { accessKeys: [], refreshKeys: [], encryptionKeys: [] }
  for (const [index, key] of keys.entries()) {
    try {
      await importKey(key, keySet)
    } catch (error) {
      // The messages of the library could quote secrets of the file.
      const reason =
        error instanceof KeyFileError ? error.message : 'it cannot be read as a private JWK'
      throw new KeyFileError(`key ${index + 1}: ${reason}`)
    }
  }
  const { accessKeys, refreshKeys, encryptionKeys } = keySet
  if (accessKeys.length === 0) throw new KeyFileError('it has no private key for access tokens')
  if (refreshKeys.length === 0)
    throw new KeyFileError('it has no secret ("kty": "oct", "use": "sig") for refresh tokens')
  const ids = allKeysOf(keySet).map(key => key.keyId)
  if (new Set(ids).size < ids.length) throw new KeyFileError('two of its keys have the same "kid"')
  const signing = refreshKeys.map(key => key.fingerprint)
  if (encryptionKeys.some(key => signing.includes(key.fingerprint))) {
    throw new KeyFileError('a key with "use": "enc" needs a "k" that no other key has')
  }
  return keySet
}

async function importKey(key: StoredKey, to: KeySet): Promise<void> {
  checkMembers(key)
  switch (purposeOf(key)) {
    case 'access':
      to.accessKeys.push(await importPrivateKey(key))
      break
    case 'refresh': {
      const { secretKey, ...facts } = importSecret(key)
      to.refreshKeys.push({ ...facts, algorithm: 'HS256', signingKey: secretKey })
      break
    }
    case 'encryption': {
      const imported = importSecret(key)
      if (imported.secretKey.symmetricKeySize !== A256GCM_BYTES) {
        throw new KeyFileError(`a key with "use": "enc" has exactly ${A256GCM_BYTES} bytes`)
      }
      to.encryptionKeys.push({ ...imported, algorithm: 'A256GCM' })
      break
    }
    case null:
      throw new KeyFileError(
        key.kty === 'oct'
          ? 'write "use": "sig" and "alg": "HS256" for a secret of refresh tokens, "use": "enc" and "alg": "A256GCM" for a key of second factors'
          : 'only a key with "kty": "oct" encrypts; write "use": "sig" for one of access tokens',
      )
  }
}

/** Checks the members that the import of a key does not check. */
function checkMembers({ kid, iat, nbf }: StoredKey): void {
  if (kid !== undefined && !(typeof kid === 'string' && KEY_ID.test(kid))) {
    throw new KeyFileError(
      'a "kid" has 1 to 64 ASCII characters, without spaces, quotes and backslashes',
    )
  }
  if ([iat, nbf].some(time => time !== undefined && !Number.isSafeInteger(time))) {
    throw new KeyFileError('"iat" and "nbf" are whole seconds since 1970')
  }
}

function importSecret(key: StoredKey): FileKey & { secretKey: KeyObject } {
  const secret = Buffer.from(key.k ?? '', 'base64url')
  if (secret.length < SECRET_MIN_BYTES) {
    throw new KeyFileError(`a secret needs at least ${SECRET_MIN_BYTES} bytes`)
  }
  if (new Set(secret).size < 8) throw new KeyFileError('a secret must be random, not a placeholder')
  if (!key.kid) throw new KeyFileError('a secret needs a "kid"')
  return {
    keyId: key.kid,
    secretKey: createSecretKey(secret),
    usedFrom: usedFrom(key),
    fingerprint: fingerprintOf(secret),
  }
}

async function importPrivateKey(key: StoredKey): Promise<AccessKey> {
  const algorithm = algorithmOf(key)
  if (!key.d) throw new KeyFileError('it is a public key; the private one is needed')
  const signingKey = createPrivateKey({ key, format: 'jwk' })
  const keyId = key.kid ?? (await calculateJwkThumbprint(key))
  const { kty, crv, x, y, n, e } = key
  const publicPart = Object.entries({ kty, crv, x, y, n, e }).filter(
    ([, value]) => value !== undefined,
  )
  const publicJwk = { ...Object.fromEntries(publicPart), kid: keyId, alg: algorithm, use: 'sig' }
  // Signs and verifies once: with a damaged key, every login would fail.
  const publicKey = await importJWK(publicJwk, algorithm)
  if (publicKey instanceof Uint8Array) throw new KeyFileError('it is not a private key')
  const signing = { keyId, algorithm, signingKey }
  await jwtVerify(signToken(signing, 'at+jwt', {}), publicKey)
  const fingerprint = fingerprintOf(JSON.stringify(publicPart))
  return { ...signing, publicKey, publicJwk, usedFrom: usedFrom(key), fingerprint }
}

function algorithmOf({ kty, crv, n }: StoredKey): AccessAlgorithm {
  if (kty === 'EC' && crv === 'P-256') return 'ES256'
  if (kty === 'OKP' && crv === 'Ed25519') return 'EdDSA'
  if (kty === 'RSA' && bitsOf(n) >= RSA_MIN_BITS) return 'RS256'
  throw new KeyFileError(`a key must be P-256, Ed25519 or RSA of at least ${RSA_NEW_MIN_BITS} bits`)
}

function bitsOf(modulus = ''): number {
  return Buffer.from(modulus, 'base64url').length * 8
}
