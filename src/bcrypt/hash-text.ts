// The text form of a hash: "$2b$12$", 22 characters of salt and 31 of digest, in an alphabet of bcrypt.

/** A hash of a higher cost would occupy a thread for many seconds, so it is never evaluated. */
export const MAX_EVALUATED_COST = 15
const LOWEST_COST = 4
/** The last character of salt and of digest holds more bits than it needs. bcrypt writes them as zeros. */
const HASH = /^\$2[aby]\$(\d\d)\$([./A-Za-z0-9]{21}[.Oeu])([./A-Za-z0-9]{30}[.CGKOSWaeimquy26])$/

const LETTERS_AND_DIGITS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789'
const BCRYPT_ALPHABET = `./${LETTERS_AND_DIGITS}`
const BASE64_ALPHABET = `${LETTERS_AND_DIGITS}+/`

type ParsedHash = { cost: number; salt: Buffer; digest: Buffer }

/** Null if the hash cannot be evaluated, or if no password can match it. */
export function parseHash(text: string | null): ParsedHash | null {
  const [, digits = '', salt = '', digest = ''] = HASH.exec(text ?? '') ?? []
  const cost = Number(digits)
  if (cost < LOWEST_COST || cost > MAX_EVALUATED_COST) return null
  return { cost, salt: decodeBase64(salt), digest: decodeBase64(digest) }
}

/** The cost of a hash that can be evaluated; null for other text. */
export function costOf(text: string): number | null {
  const cost = Number(HASH.exec(text)?.[1] ?? 0)
  return cost < LOWEST_COST || cost > MAX_EVALUATED_COST ? null : cost
}

export function formatHash({ cost, salt, digest }: ParsedHash): string {
  return `$2b$${String(cost).padStart(2, '0')}$${encodeBase64(salt)}${encodeBase64(digest)}`
}

/**
 * The same hash with the prefix $2b$: $2a$ and $2y$ mean the same, and npm bcrypt does not know $2y$. A hash is stored
 * as it was given, and compared in this form.
 */
export function canonicalHash(text: string): string {
  return /^\$2[ay]\$/.test(text) ? `$2b$${text.slice(4)}` : text
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
