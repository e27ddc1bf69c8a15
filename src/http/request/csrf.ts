// Cross-site request forgery: a request that lives on the session cookie must prove that it was made
// by a page that could read our answers.
import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { sendFailure } from '../answer/envelope.ts'
import { logRefused, type RefusalReason } from './log.ts'

type IsListedOrigin = (origin: string) => boolean

const NONCE_BYTES = 16
/** A nonce of 22 characters, a dot, and a MAC of 43. */
const TOKEN_CHARACTERS = 66

/** Keyed by the cookie itself: it is of use with this session only, and there is no further secret. */
function makeCsrfToken(sessionCookie: string): string {
  const nonce = randomBytes(NONCE_BYTES).toString('base64url')
  return `${nonce}.${macOf(nonce, sessionCookie)}`
}

function isCsrfTokenValid(token: string, sessionCookie: string): boolean {
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

export type CsrfReason = Extract<RefusalReason, `csrf-${string}`>

/** Null if the request was made by this site, or by a listed one, and carries the session's token. */
export function checkCsrf(
  { headers }: FastifyRequest,
  sessionCookie: string,
  isListedOrigin: IsListedOrigin,
): CsrfReason | null {
  const token = headers['x-csrf-token']
  const isFromHere = headers['sec-fetch-site'] === 'same-origin'
  if (!isFromHere && !isFromListed(headers, isListedOrigin)) return 'csrf-other-site'
  if (token === undefined) return 'csrf-no-token'
  const isValid = typeof token === 'string' && isCsrfTokenValid(token, sessionCookie)
  return isValid ? null : 'csrf-wrong-token'
}

/**
 * Login CSRF: a page of another site could log its visitor in to an account of its own. Only browsers
 * send the header, and "none" is a person at the address bar; a program sends neither.
 */
export function refuseForeignLogins(isListedOrigin: IsListedOrigin) {
  return (request: FastifyRequest, reply: FastifyReply, done: () => void) => {
    const { headers } = request
    const site = headers['sec-fetch-site'] ?? 'none'
    const isAllowed =
      site === 'none' || site === 'same-origin' || isFromListed(headers, isListedOrigin)
    if (isAllowed) return done()
    logRefused(request, 'csrf-other-site', headers.origin)
    sendFailure(reply, 'CSRF_FAILED')
  }
}

function isFromListed({ origin }: IncomingHttpHeaders, isListedOrigin: IsListedOrigin): boolean {
  return origin !== undefined && isListedOrigin(origin)
}
