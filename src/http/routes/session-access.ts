// Finds the session of a request. A token in the header or body takes precedence over a cookie.
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { LiveSession } from '../../domain/session.ts'
import {
  type AccessReason,
  type Authentication,
  authenticateByCookie,
  authenticateByToken,
  type SessionDeps,
} from '../../session/authenticate.ts'
import { sendFailure } from '../answer/envelope.ts'
import { sessionCookieOf } from '../request/cookies.ts'
import { type CsrfReason, checkCsrf } from '../request/csrf.ts'
import { logOf, logRefused } from '../request/log.ts'

export type SessionAccess = SessionDeps & { isListedOrigin: (origin: string) => boolean }

type Credential = 'access-token' | 'refresh-token' | 'cookie'

export type Access =
  | { kind: 'granted'; live: LiveSession; cookie: string | null }
  | { kind: 'absent' }
  | { kind: 'denied'; credential: Credential; reason: AccessReason }
  | { kind: 'forged'; reason: CsrfReason }

type SessionHandler = (
  live: LiveSession,
  request: FastifyRequest,
  reply: FastifyReply,
  cookie: string | null,
) => Promise<FastifyReply>

/** Calls the handler only for requests with a live session. */
export function withSession(deps: SessionAccess, handle: SessionHandler) {
  return async (request: FastifyRequest, reply: FastifyReply) => {
    const access = await accessOf(deps, request)
    if (access.kind !== 'granted') return sendDenied(request, reply, access)
    return handle(access.live, request, reply, access.cookie)
  }
}

/** By bearer token or cookie. A change that is authenticated by the cookie needs a CSRF token. */
export async function accessOf(deps: SessionAccess, request: FastifyRequest): Promise<Access> {
  const token = bearerTokenOf(request)
  if (token === null) return accessByCookie(deps, request)
  return toAccess('access-token', await authenticateByToken(deps, token))
}

export async function accessByCookie(
  deps: SessionAccess,
  request: FastifyRequest,
): Promise<Access> {
  const cookie = sessionCookieOf(request)
  if (cookie === null) return { kind: 'absent' }
  const isChange = request.method !== 'GET' && request.method !== 'HEAD'
  const reason = isChange ? checkCsrf(request, cookie, deps.isListedOrigin) : null
  if (reason) return { kind: 'forged', reason }
  return toAccess('cookie', await authenticateByCookie(deps, cookie), cookie)
}

export function toAccess(
  credential: Credential,
  authentication: Authentication,
  cookie: string | null = null,
): Access {
  return authentication.kind === 'live'
    ? { kind: 'granted', live: authentication, cookie }
    : { kind: 'denied', credential, reason: authentication.reason }
}

export function sendDenied(
  request: FastifyRequest,
  reply: FastifyReply,
  access: Exclude<Access, { kind: 'granted' }>,
) {
  logDenied(request, access)
  if (access.kind === 'forged') return sendFailure(reply, 'CSRF_FAILED')
  const isTokenRefused = access.kind === 'denied' && access.credential !== 'cookie'
  return sendFailure(reply, 'INVALID_TOKEN', { isTokenRefused })
}

/** A request without a credential is not logged: the page asks that way whether a user is logged in. */
export function logDenied(request: FastifyRequest, access: Access): void {
  if (access.kind === 'denied') {
    const { credential, reason } = access
    logOf(request).counted('info', { event: 'session.refused', credential, reason })
  }
  if (access.kind === 'forged') logRefused(request, access.reason, request.headers.origin)
}

/** Null for any other scheme, which is not meant for this service. */
export function bearerTokenOf({ headers }: FastifyRequest): string | null {
  const [scheme = '', token = ''] = (headers.authorization ?? '').split(' ', 2)
  return scheme.toLowerCase() === 'bearer' ? token : null
}

/** The refresh token in a JSON body, if there is one. */
export function bodyTokenOf({ body }: FastifyRequest): string | null {
  const hasToken = body !== null && typeof body === 'object' && 'refreshToken' in body
  return hasToken && typeof body.refreshToken === 'string' ? body.refreshToken : null
}
