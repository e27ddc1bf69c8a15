// Finds the session of a request. A token in the header or body takes precedence over a cookie.
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { LiveSession } from '../../domain/session.ts'
import {
  type AccessReason,
  authenticate,
  type Credential,
  type SessionDeps,
} from '../../session/authenticate.ts'
import type { EndedWithoutFactor } from '../../session/demanded-factor.ts'
import type { Limited, ReadLimit } from '../../session/rate-limit.ts'
import { sendFailure } from '../answer/envelope.ts'
import { bearerTokenOf } from '../request/bearer.ts'
import { sessionCookieOf } from '../request/cookies.ts'
import { checkCsrf, type IsListedOrigin, isChange } from '../request/csrf.ts'
import { type CsrfReason, logCounted, logRefused } from '../request/log.ts'
import { reportEnded } from './ended-session.ts'

export type SessionAccess = SessionDeps & {
  isListedOrigin: IsListedOrigin
  limitRead: ReadLimit
}

type CrossSite = { kind: 'cross-site'; reason: CsrfReason }
type Denied = {
  kind: 'denied'
  credential: Credential['kind']
  reason: AccessReason
  /** Of the user whose cookie was idle for too long. */
  email?: string | undefined
  /** The session that the request has ended. */
  ended?: EndedWithoutFactor['ended'] | undefined
}
/** Why a request is not accepted. */
export type NoAccess = { kind: 'absent' } | Denied | CrossSite | Limited

type Access = { kind: 'granted'; live: LiveSession; cookie: string | null } | NoAccess

type SessionHandler = (
  live: LiveSession,
  request: FastifyRequest,
  reply: FastifyReply,
  cookie: string | null,
) => Promise<FastifyReply>

/** Calls the handler only for requests with a live session. */
export function withSession(deps: SessionAccess, handle: SessionHandler) {
  return async (request: FastifyRequest, reply: FastifyReply) => {
    const access = await (isChange(request) ? accessBy : readBy)(deps, credentialOf(deps, request))
    if (access.kind !== 'granted') return sendDenied(request, reply, access)
    return handle(access.live, request, reply, access.cookie)
  }
}

export async function accessBy(deps: SessionAccess, shown: Shown): Promise<Access> {
  if (shown.kind === 'absent' || shown.kind === 'cross-site') return shown
  const found = await authenticate(deps, shown)
  if (found.kind === 'invalid') {
    return { ...found, kind: 'denied', credential: shown.kind }
  }
  return { kind: 'granted', live: found, cookie: shown.kind === 'cookie' ? shown.value : null }
}

/** For a page or a list. What ends sessions has no limit. */
export async function readBy(deps: SessionAccess, shown: Shown): Promise<Access> {
  const access = await accessBy(deps, shown)
  const isByCookie = access.kind === 'granted' && access.cookie !== null
  return (isByCookie && deps.limitRead(access.live.session.id)) || access
}

type Shown = Credential | { kind: 'absent' } | CrossSite

/** A bearer token or a cookie. */
export function credentialOf(deps: SessionAccess, request: FastifyRequest): Shown {
  const token = bearerTokenOf(request)
  return token === null ? cookieOf(deps, request) : { kind: 'access-token', value: token }
}

/** A change that is authenticated by the cookie needs a CSRF token. */
export function cookieOf(
  deps: Pick<SessionAccess, 'isListedOrigin'>,
  request: FastifyRequest,
  csrfToken: string | string[] | undefined = request.headers['x-csrf-token'],
): Shown {
  const value = sessionCookieOf(request)
  if (value === null) return { kind: 'absent' }
  const reason = isChange(request)
    ? checkCsrf(request, value, deps.isListedOrigin, csrfToken)
    : null
  return reason ? { kind: 'cross-site', reason } : { kind: 'cookie', value }
}

export function sendDenied(request: FastifyRequest, reply: FastifyReply, access: NoAccess) {
  logDenied(request, access)
  if (access.kind === 'cross-site') return sendFailure(reply, 'CSRF_FAILED')
  if (access.kind === 'limited') {
    const { retryAfterSeconds } = access
    return sendFailure(reply, 'TOO_MANY_REQUESTS', { retryAfterSeconds })
  }
  if (access.kind === 'absent') {
    const message = 'The request has no credential that this operation accepts. Please log in.'
    return sendFailure(reply, 'INVALID_TOKEN', { message })
  }
  return sendFailure(reply, 'INVALID_TOKEN', { isTokenRefused: access.credential !== 'cookie' })
}

/** A request without a credential is not logged: the page asks that way whether a user is logged in. */
export function logDenied(request: FastifyRequest, access: NoAccess): void {
  if (access.kind === 'denied') {
    const { credential, reason, ended } = access
    if (ended) reportEnded(request, ended.id, ended.userId, 'second-factor')
    logCounted(request, 'info', { event: 'session.refused', credential, reason })
  }
  if (access.kind === 'limited') {
    logCounted(request, 'warn', { event: 'session.limited', sessionId: access.sessionId })
  }
  if (access.kind === 'cross-site') logRefused(request, access.reason, request.headers.origin)
}

/** Refuses a body without a refresh token, of a request without another credential. Null if there is no body. */
export function refuseOtherBody({ body }: FastifyRequest, reply: FastifyReply) {
  if (body == null || (typeof body === 'object' && Object.keys(body).length === 0)) return null
  const message = 'The body has no refreshToken that is a string'
  return sendFailure(reply, 'BAD_REQUEST', { message, fields: ['refreshToken'] })
}

/** The refresh token in a JSON body, if there is one. */
export function bodyTokenOf({ body, validationError }: FastifyRequest): string | null {
  if (validationError) return null
  return (body as { refreshToken?: string }).refreshToken ?? null
}
