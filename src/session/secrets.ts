// Secrets that are nothing but random.
import { randomBytes } from 'node:crypto'

/** 256 bits, as text that fits into a cookie. */
export function randomToken(): string {
  return randomBytes(32).toString('base64url')
}
