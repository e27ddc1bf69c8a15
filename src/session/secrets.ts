// Secrets that are nothing but random, and what is stored of any secret.
import { createHash, randomBytes } from 'node:crypto'

/** 256 bits, as text that fits into a cookie. */
export function randomToken(): string {
  return randomBytes(32).toString('base64url')
}

/** What is stored of a token: enough to know it again, not enough to present it. */
export function digestOf(token: string): string {
  return createHash('sha256').update(token).digest('hex')
}
