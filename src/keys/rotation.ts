// Makes the keys of the file, and removes those that are no longer needed.
import { randomBytes } from 'node:crypto'
import { calculateJwkThumbprint, exportJWK, generateKeyPair } from 'jose'
import { REFRESH_TOKEN_SECONDS } from '../domain/lifetimes.ts'
import { type KeyFile, purposeOf, type StoredKey, usedFrom } from './key-set.ts'

/** How long a new key is published before it signs, so that other machines and services can get it. */
export const PUBLISH_SECONDS = 3600
/** What AES-256 takes, and HMAC-SHA-256 at least. */
const SECRET_BYTES = 32

/** What a new file has, used at once. */
export function createFirstKeys(now: Date): Promise<KeyFile> {
  return rotate({ keys: [] }, now, 0)
}

async function createGeneration(now: Date, delaySeconds: number): Promise<StoredKey[]> {
  const { privateKey } = await generateKeyPair('ES256', { extractable: true })
  const privateJwk = await exportJWK(privateKey)
  const kid = await calculateJwkThumbprint(privateJwk)
  const rest = { use: 'sig', ...timesOf(now, delaySeconds) }
  return [
    { ...privateJwk, kid, alg: 'ES256', ...rest },
    { ...createSecret(), alg: 'HS256', ...rest },
  ]
}

function createSecret() {
  return {
    kty: 'oct',
    k: randomBytes(SECRET_BYTES).toString('base64url'),
    kid: randomBytes(8).toString('base64url'),
  }
}

function timesOf(now: Date, delaySeconds: number) {
  const iat = Math.floor(now.getTime() / 1000)
  return { iat, nbf: iat + delaySeconds }
}

/**
 * Adds a generation, and an encryption key if there is none. Removes superseded keys whose last token has expired, but no
 * encryption key: a second factor may need it for years.
 */
export async function rotate(
  file: KeyFile,
  now: Date,
  delaySeconds = PUBLISH_SECONDS,
): Promise<KeyFile> {
  const keys = [...file.keys, ...(await createGeneration(now, delaySeconds))]
  if (!keys.some(key => purposeOf(key) === 'encryption')) {
    // Without a delay: nothing else can encrypt in the meantime.
    keys.push({ ...createSecret(), alg: 'A256GCM', use: 'enc', ...timesOf(now, 0) })
  }
  const oldestNeeded = now.getTime() / 1000 - REFRESH_TOKEN_SECONDS - PUBLISH_SECONDS
  return {
    keys: keys.filter(key => {
      const purpose = purposeOf(key)
      const successors = keys.filter(
        other => purposeOf(other) === purpose && usedFrom(other) > usedFrom(key),
      )
      const isSuperseded = successors.some(successor => usedFrom(successor) < oldestNeeded)
      return purpose === 'encryption' || !isSuperseded
    }),
  }
}
