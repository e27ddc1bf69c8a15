// Which session a request speaks for. A token in the header or body wins over a cookie sent along.
import type { FastifyReply, FastifyRequest } from 'fastify'
import { authenticateByCookie, authenticateByToken } from '../session/authenticate.ts'
import type { SessionDeps } from '../session/open.ts'
import type { LiveSession } from '../storage/store.ts'
import { sessionCookieOf } from './cookies.ts'
import { isOwnRequest } from './csrf.ts'
import { sendFailure } from './envelope.ts'

export type SessionAccess = SessionDeps & { isListedOrigin: (origin: string) => boolean }

export type Access =
  | { kind: 'granted'; live: LiveSession; cookie: string | null }
  | { kind: 'denied' }
  | { kind: 'forged' }

/** By bearer token or cookie. Whoever lives on the cookie must prove that a change is its own. */
export async function accessOf(deps: SessionAccess, request: FastifyRequest): Promise<Access> {
  const token = bearerTokenOf(request)
  if (token === null) return accessByCookie(deps, request)
  const live = await authenticateByToken(deps, token)
  return live ? { kind: 'granted', live, cookie: null } : { kind: 'denied' }
}

export async function accessByCookie(
  deps: SessionAccess,
  request: FastifyRequest,
): Promise<Access> {
  const cookie = sessionCookieOf(request)
  if (cookie === null) return { kind: 'denied' }
  const isChange = request.method !== 'GET' && request.method !== 'HEAD'
  if (isChange && !isOwnRequest(request, cookie, deps.isListedOrigin)) return { kind: 'forged' }
  const live = await authenticateByCookie(deps, cookie)
  return live ? { kind: 'granted', live, cookie } : { kind: 'denied' }
}

export function sendDenied(reply: FastifyReply, { kind }: Exclude<Access, { kind: 'granted' }>) {
  return sendFailure(reply, kind === 'forged' ? 'CSRF_FAILED' : 'INVALID_TOKEN')
}

/** Null for any other scheme: it is not meant for this service. */
export function bearerTokenOf({ headers }: FastifyRequest): string | null {
  const [scheme = '', token = ''] = (headers.authorization ?? '').split(' ', 2)
  return scheme.toLowerCase() === 'bearer' ? token : null
}

/** The refresh token in a JSON body, if there is one. */
export function bodyTokenOf({ body }: FastifyRequest): string | null {
  const hasToken = body !== null && typeof body === 'object' && 'refreshToken' in body
  return hasToken && typeof body.refreshToken === 'string' ? body.refreshToken : null
}
