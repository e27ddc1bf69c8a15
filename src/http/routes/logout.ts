// POST /api/v1/auth/logout: ends the session of a token or cookie. The answer is the same if there is none.
import type { FastifyReply, FastifyRequest } from 'fastify'
import { authenticateByRefreshToken } from '../../session/authenticate.ts'
import { sendSuccess } from '../answer/envelope.ts'
import { clearSessionCookie, sessionCookieOf } from '../request/cookies.ts'
import { logOf } from '../request/log.ts'
import {
  type Access,
  accessOf,
  bearerTokenOf,
  bodyTokenOf,
  logDenied,
  type SessionAccess,
  sendDenied,
  toAccess,
} from './session-access.ts'

export function logoutRoute(deps: SessionAccess) {
  return async (request: FastifyRequest, reply: FastifyReply) => {
    const access = await accessToEnd(deps, request)
    if (access.kind === 'forged') return sendDenied(request, reply, access)
    logDenied(request, access)
    if (access.kind === 'granted') {
      const { session, user } = access.live
      if (await deps.store.endSession(session.id, deps.clock())) {
        const facts = { sessionId: session.id, userId: user.id, reason: 'logout' }
        logOf(request).info({ event: 'session.ended', ...facts })
      }
    }
    // A cookie that is sent with a token may belong to another session.
    const isByCookie = bodyTokenOf(request) === null && bearerTokenOf(request) === null
    if (isByCookie && sessionCookieOf(request) !== null) clearSessionCookie(reply)
    return sendSuccess(reply, {})
  }
}

async function accessToEnd(deps: SessionAccess, request: FastifyRequest): Promise<Access> {
  const token = bodyTokenOf(request)
  if (token === null) return accessOf(deps, request)
  return toAccess('refresh-token', await authenticateByRefreshToken(deps, token))
}
