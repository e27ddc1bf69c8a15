// Cross-site request forgery: a change that is authenticated by the session cookie must carry a token
// from one of our answers, which pages of other sites cannot read.
import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { sendFailure } from '../answer/envelope.ts'
import { type CsrfReason, logRefused } from './log.ts'

export type IsListedOrigin = (origin: string | undefined) => boolean

const NONCE_BYTES = 16

export function isChange({ method }: FastifyRequest): boolean {
  return method !== 'GET' && method !== 'HEAD'
}

export function sendCsrfToken(reply: FastifyReply, sessionCookie: string): void {
  reply.header('X-CSRF-Token', makeCsrfToken(sessionCookie))
}

export function makeCsrfToken(sessionCookie: string): string {
  return toCsrfToken(randomBytes(NONCE_BYTES).toString('base64url'), sessionCookie)
}

function isCsrfTokenValid(token: string, sessionCookie: string): boolean {
  const [nonce = ''] = token.split('.', 1)
  const given = Buffer.from(token)
  const expected = Buffer.from(toCsrfToken(nonce, sessionCookie))
  return given.length === expected.length && timingSafeEqual(given, expected)
}

/** A nonce and its MAC. The key is the cookie: the token is valid for this session only and needs no other secret. */
function toCsrfToken(nonce: string, sessionCookie: string): string {
  const mac = createHmac('sha256', sessionCookie).update(nonce).digest('base64url')
  return `${nonce}.${mac}`
}

/** Null if the request comes from this site or a listed origin, and carries the session's token. */
export function checkCsrf(
  { headers }: FastifyRequest,
  sessionCookie: string,
  isListedOrigin: IsListedOrigin,
  token: string | string[] | undefined,
): CsrfReason | null {
  const reason = checkSite(headers, isListedOrigin)
  if (reason) return reason
  if (token === undefined) return 'csrf-no-token'
  const isValid = typeof token === 'string' && isCsrfTokenValid(token, sessionCookie)
  return isValid ? null : 'csrf-wrong-token'
}

/** Null if the request comes from this site or a listed origin. */
export function checkSite(
  headers: IncomingHttpHeaders,
  isListedOrigin: IsListedOrigin,
): CsrfReason | null {
  const { origin, 'sec-fetch-site': site } = headers
  if (site === 'same-origin' || isListedOrigin(origin)) return null
  return site === undefined && origin === undefined ? 'csrf-no-site' : 'csrf-other-site'
}

/**
 * A form of a page. Every supported browser sends Sec-Fetch-Site. Origin is "null" in our own posts, because the pages
 * send no referrer.
 */
export function refuseForeignForms(request: FastifyRequest, reply: FastifyReply, done: () => void) {
  const { origin, 'sec-fetch-site': site } = request.headers
  if (site === 'same-origin') return done()
  logRefused(request, site === undefined ? 'csrf-no-site' : 'csrf-other-site', origin)
  sendFailure(reply, 'CSRF_FAILED')
}

/**
 * Login CSRF: a page of another site could log its visitor in to the attacker's account. Browsers send
 * Sec-Fetch-Site, with "none" for an address that the user entered; other programs do not send it.
 */
export function refuseForeignLogins(isListedOrigin: IsListedOrigin) {
  return (request: FastifyRequest, reply: FastifyReply, done: () => void) => {
    const { origin, 'sec-fetch-site': site = 'none' } = request.headers
    if (site === 'none' || site === 'same-origin' || isListedOrigin(origin)) return done()
    logRefused(request, 'csrf-other-site', origin)
    sendFailure(reply, 'CSRF_FAILED')
  }
}
