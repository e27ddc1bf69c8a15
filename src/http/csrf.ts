// Cross-site request forgery: a request that lives on the session cookie must prove that it was made
// by a page that could read our answers.
import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto'
import type { FastifyReply, FastifyRequest } from 'fastify'

const NONCE_BYTES = 16
/** A nonce of 22 characters, a dot, and a MAC of 43. */
const TOKEN_CHARACTERS = 66

/** Keyed by the cookie itself: it is of use with this session only, and there is no further secret. */
export function makeCsrfToken(sessionCookie: string): string {
  const nonce = randomBytes(NONCE_BYTES).toString('base64url')
  return `${nonce}.${macOf(nonce, sessionCookie)}`
}

export function isCsrfTokenValid(token: string, sessionCookie: string): boolean {
  if (token.length !== TOKEN_CHARACTERS) return false
  const [nonce = '', mac = '', ...rest] = token.split('.', 3)
  if (rest.length > 0) return false
  const given = Buffer.from(mac)
  const expected = Buffer.from(macOf(nonce, sessionCookie))
  return given.length === expected.length && timingSafeEqual(given, expected)
}

function macOf(nonce: string, sessionCookie: string): string {
  return createHmac('sha256', sessionCookie).update(nonce).digest('base64url')
}

export function sendCsrfToken(reply: FastifyReply, sessionCookie: string): void {
  reply.header('X-CSRF-Token', makeCsrfToken(sessionCookie))
}

/** True if the request was made by this site, or by a listed one, and carries the session's token. */
export function isOwnRequest(
  { headers }: FastifyRequest,
  sessionCookie: string,
  isListedOrigin: (origin: string) => boolean,
): boolean {
  const token = headers['x-csrf-token']
  const isFromHere = headers['sec-fetch-site'] === 'same-origin'
  const isFromListed = headers.origin !== undefined && isListedOrigin(headers.origin)
  return (
    (isFromHere || isFromListed) &&
    typeof token === 'string' &&
    isCsrfTokenValid(token, sessionCookie)
  )
}
