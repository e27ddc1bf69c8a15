// The signing keys: a private JWK Set of generations, each with an asymmetric key for access tokens and a
// secret for refresh tokens. A key signs from its `nbf` on; it verifies as soon as it is in the file.
import { createPrivateKey, createSecretKey, randomBytes } from 'node:crypto'
import {
  type CryptoKey,
  calculateJwkThumbprint,
  exportJWK,
  generateKeyPair,
  importJWK,
  type JWK,
  jwtVerify,
} from 'jose'
import { REFRESH_TOKEN_SECONDS } from '../domain/lifetimes.ts'
import { fingerprintOf } from '../system/identifiers.ts'
import { type AccessAlgorithm, type SigningKey, signToken } from './sign-token.ts'

/** `fingerprint` tells two keys with the same id apart. */
type FileKey = SigningKey & { signsFrom: number; fingerprint: string }
export type AccessKey = FileKey & {
  algorithm: AccessAlgorithm
  publicKey: CryptoKey
  publicJwk: JWK
}
export type RefreshKey = FileKey & { algorithm: 'HS256' }

export type Keys = {
  signingAt(now: Date): { accessKey: AccessKey; refreshKey: RefreshKey }
  findAccessKey(keyId: string): AccessKey | null
  findRefreshKey(keyId: string): RefreshKey | null
  publicJwks(): { keys: JWK[] }
  /** The same number wherever the same keys are known. */
  hash(): number
}

export type KeySet = { accessKeys: AccessKey[]; refreshKeys: RefreshKey[] }

type StoredKey = JWK & { iat?: number; nbf?: number }
export type KeyFile = { keys: StoredKey[] }

/** How long a new key is published before it signs, so that other machines and services can get it. */
export const PUBLISH_SECONDS = 3600
const SECRET_MIN_BYTES = 32
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

/** `keySet` is read again for each call: its keys may change. */
export function createKeys(keySet: Readonly<KeySet>): Keys {
  return {
    signingAt: now => ({
      accessKey: newestSigning(keySet.accessKeys, now),
      refreshKey: newestSigning(keySet.refreshKeys, now),
    }),
    findAccessKey: keyId => keySet.accessKeys.find(key => key.keyId === keyId) ?? null,
    findRefreshKey: keyId => keySet.refreshKeys.find(key => key.keyId === keyId) ?? null,
    publicJwks: () => ({ keys: keySet.accessKeys.map(key => key.publicJwk) }),
    hash: () => hashOf(keySet),
  }
}

/** 48 bits, which a number of JavaScript and of Prometheus holds exactly. */
function hashOf({ accessKeys, refreshKeys }: KeySet): number {
  const known = [...accessKeys, ...refreshKeys].map(key => `${key.keyId} ${key.fingerprint}`)
  return Number.parseInt(fingerprintOf(known.toSorted().join()).slice(0, 12), 16)
}

/** The newest key whose start has passed. If none has started, the clock is behind: the first key signs. */
function newestSigning<K extends { signsFrom: number }>(keys: K[], now: Date): K {
  const oldestFirst = keys.toSorted((a, b) => a.signsFrom - b.signsFrom)
  const signing =
    oldestFirst.findLast(key => key.signsFrom * 1000 <= now.getTime()) ?? oldestFirst[0]
  if (!signing) throw new KeyFileError('it has no key')
  return signing
}

export async function createGeneration(now: Date, delaySeconds: number): Promise<StoredKey[]> {
  const { privateKey } = await generateKeyPair('ES256', { extractable: true })
  const privateJwk = await exportJWK(privateKey)
  const iat = Math.floor(now.getTime() / 1000)
  const times = { use: 'sig', iat, nbf: iat + delaySeconds }
  return [
    { ...privateJwk, kid: await calculateJwkThumbprint(privateJwk), alg: 'ES256', ...times },
    {
      kty: 'oct',
      k: randomBytes(SECRET_MIN_BYTES).toString('base64url'),
      kid: randomBytes(8).toString('base64url'),
      alg: 'HS256',
      ...times,
    },
  ]
}

/** Adds a generation, and removes superseded keys whose last token has expired. */
export async function rotate(
  file: KeyFile,
  now: Date,
  delaySeconds = PUBLISH_SECONDS,
): Promise<KeyFile> {
  const keys = [...file.keys, ...(await createGeneration(now, delaySeconds))]
  const oldestNeeded = now.getTime() / 1000 - REFRESH_TOKEN_SECONDS - PUBLISH_SECONDS
  return {
    keys: keys.filter(key => {
      const successors = keys.filter(
        other => (other.kty === 'oct') === (key.kty === 'oct') && signsFrom(other) > signsFrom(key),
      )
      return !successors.some(successor => signsFrom(successor) < oldestNeeded)
    }),
  }
}

function signsFrom(key: StoredKey): number {
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
  const accessKeys: AccessKey[] = []
  const refreshKeys: RefreshKey[] = []
  for (const [index, key] of keys.entries()) {
    try {
      checkMembers(key)
      if (key.kty === 'oct') refreshKeys.push(importSecret(key))
      else accessKeys.push(await importPrivateKey(key))
    } catch (error) {
      // The messages of the library could quote secrets of the file.
      const reason =
        error instanceof KeyFileError ? error.message : 'it cannot be read as a private JWK'
      throw new KeyFileError(`key ${index + 1}: ${reason}`)
    }
  }
  if (accessKeys.length === 0) throw new KeyFileError('it has no private key for access tokens')
  if (refreshKeys.length === 0)
    throw new KeyFileError('it has no secret ("kty": "oct") for refresh tokens')
  const ids = [...accessKeys, ...refreshKeys].map(key => key.keyId)
  if (new Set(ids).size < ids.length) throw new KeyFileError('two of its keys have the same "kid"')
  return { accessKeys, refreshKeys }
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

function importSecret(key: StoredKey): RefreshKey {
  const secret = Buffer.from(key.k ?? '', 'base64url')
  if (secret.length < SECRET_MIN_BYTES) {
    throw new KeyFileError(`a secret needs at least ${SECRET_MIN_BYTES} bytes`)
  }
  if (new Set(secret).size < 8) throw new KeyFileError('a secret must be random, not a placeholder')
  if (!key.kid) throw new KeyFileError('a secret needs a "kid"')
  return {
    keyId: key.kid,
    algorithm: 'HS256',
    signingKey: createSecretKey(secret),
    signsFrom: signsFrom(key),
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
  return { ...signing, publicKey, publicJwk, signsFrom: signsFrom(key), fingerprint }
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
