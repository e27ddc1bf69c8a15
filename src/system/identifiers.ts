// Random tokens, digests of them, and the form of an id.
import { hash, randomBytes, randomInt } from 'node:crypto'

/** Schemas have no flag that ignores case. */
export const UUID_PATTERN = '^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$'
const UUID = new RegExp(UUID_PATTERN)

/** Every id is a UUID. Other text cannot name anything, and PostgreSQL would reject the statement. */
export function isUuid(value: unknown): value is string {
  return typeof value === 'string' && UUID.test(value)
}

/** 256 random bits as text that fits into a cookie. */
export function randomToken(): string {
  return randomBytes(32).toString('base64url')
}

/** Crockford's alphabet, 5 bits per character: no letter can be mistaken for a digit. */
const CHARACTERS = '0123456789abcdefghjkmnpqrstvwxyz'
const GROUP_LENGTH = 4

/** 20 random bits in each group of a text that can be dictated, such as 4kf2-9wpx-7m0c. */
export function randomGroups(count: number): string {
  const character = () => CHARACTERS[randomInt(CHARACTERS.length)]
  const group = () => Array.from({ length: GROUP_LENGTH }, character).join('')
  return Array.from({ length: count }, group).join('-')
}

/** Lets secret scanners find a leaked admin token: the prefix, then 43 characters of base64url. */
const ADMIN_TOKEN_PREFIX = 'lsadm_'
const ADMIN_TOKEN = new RegExp(`${ADMIN_TOKEN_PREFIX}[\\w-]+`, 'g')

export function createAdminToken(): string {
  return `${ADMIN_TOKEN_PREFIX}${randomToken()}`
}

export function isAdminToken(text: string | null): text is string {
  return text !== null && /^lsadm_[\w-]{43}$/.test(text)
}

/** The text with each admin token in it replaced by its prefix and "***". */
export function maskAdminTokens(text: string): string {
  return text.replace(ADMIN_TOKEN, `${ADMIN_TOKEN_PREFIX}***`)
}

/** SHA-256 in hex: stored in place of a secret, it identifies the secret and cannot be used as one. */
export function digestOf(text: string): string {
  return hash('sha256', text)
}

/** 128 bits of the digest in hex: short enough for a table, and too long to find another text with the same ones. */
export function fingerprintOf(secret: string | Buffer): string {
  return hash('sha256', secret).slice(0, 32)
}
