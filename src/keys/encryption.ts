// Encrypts what a reader of the database must not learn, with a key of the key file: AES-256-GCM.
import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto'
import type { EncryptionKey, Keys } from './key-set.ts'

const CIPHER = 'aes-256-gcm'
/** NIST SP 800-38D, section 8.3: one key may encrypt 2³² times with random ones of this length. */
const IV_BYTES = 12
/** Set explicitly: otherwise Node also accepts shorter tags, which are easier to forge. */
const TAG = { authTagLength: 16 }

/**
 * The text is KEYID.BASE64URL(iv, ciphertext, tag). `context` says what the bytes belong to: in another context they do
 * not decrypt.
 */
export function encrypt(key: EncryptionKey, bytes: Buffer, context: string): string {
  const iv = randomBytes(IV_BYTES)
  const cipher = createCipheriv(CIPHER, key.secretKey, iv, TAG).setAAD(Buffer.from(context))
  const encrypted = [iv, cipher.update(bytes), cipher.final(), cipher.getAuthTag()]
  return `${key.keyId}.${Buffer.concat(encrypted).toString('base64url')}`
}

/** Null if the key is not in the file, or if text and context are not those of an encryption. */
export function decrypt(
  keys: Pick<Keys, 'findEncryptionKey'>,
  text: string,
  context: string,
): Buffer | null {
  const { keyId, encoded } = partsOf(text)
  const key = keys.findEncryptionKey(keyId)
  const bytes = Buffer.from(encoded, 'base64url')
  // Node skips what is no base64url, so that several texts would stand for the same bytes.
  if (!key || bytes.toString('base64url') !== encoded) return null
  if (bytes.length < IV_BYTES + TAG.authTagLength) return null
  const iv = bytes.subarray(0, IV_BYTES)
  const decipher = createDecipheriv(CIPHER, key.secretKey, iv, TAG)
    .setAAD(Buffer.from(context))
    .setAuthTag(bytes.subarray(-TAG.authTagLength))
  try {
    const decrypted = decipher.update(bytes.subarray(IV_BYTES, -TAG.authTagLength))
    return Buffer.concat([decrypted, decipher.final()])
  } catch {
    return null
  }
}

/** The id of the key that has encrypted the text. */
export function keyIdOf(text: string): string {
  return partsOf(text).keyId
}

/** An id of a key may have dots, base64url has none. */
function partsOf(text: string): { keyId: string; encoded: string } {
  const dot = text.lastIndexOf('.')
  return { keyId: text.slice(0, Math.max(dot, 0)), encoded: text.slice(dot + 1) }
}
