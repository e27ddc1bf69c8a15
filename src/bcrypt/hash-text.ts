// The text form of a hash: "$2b$12$", 22 characters of salt and 31 of digest, in an alphabet of bcrypt.

/** A hash of a higher cost would occupy a thread for many seconds, so it is never evaluated. */
export const MAX_EVALUATED_COST = 15
const LOWEST_COST = 4
const HASH = /^\$2[aby]\$(\d\d)\$([./A-Za-z0-9]{22})([./A-Za-z0-9]{31})$/

const LETTERS_AND_DIGITS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789'
const BCRYPT_ALPHABET = `./${LETTERS_AND_DIGITS}`
const BASE64_ALPHABET = `${LETTERS_AND_DIGITS}+/`

export type ParsedHash = { cost: number; salt: Buffer; digest: Buffer }

/** Null if the hash cannot be evaluated, or if no password can match it. */
export function parseHash(text: string | null): ParsedHash | null {
  const [, digits = '', saltText = '', digestText = ''] = HASH.exec(text ?? '') ?? []
  const cost = Number(digits)
  if (cost < LOWEST_COST || cost > MAX_EVALUATED_COST) return null
  const salt = decodeBase64(saltText)
  const digest = decodeBase64(digestText)
  // The last character of each holds more bits than it needs. bcrypt writes them as zeros.
  if (encodeBase64(salt) !== saltText || encodeBase64(digest) !== digestText) return null
  return { cost, salt, digest }
}

export function formatHash({ cost, salt, digest }: ParsedHash): string {
  return `$2b$${String(cost).padStart(2, '0')}$${encodeBase64(salt)}${encodeBase64(digest)}`
}

export function encodeBase64(bytes: Buffer): string {
  return translate(bytes.toString('base64').replaceAll('=', ''), BASE64_ALPHABET, BCRYPT_ALPHABET)
}

export function decodeBase64(text: string): Buffer {
  return Buffer.from(translate(text, BCRYPT_ALPHABET, BASE64_ALPHABET), 'base64')
}

function translate(text: string, from: string, to: string): string {
  return Array.from(text, character => to[from.indexOf(character)]).join('')
}
