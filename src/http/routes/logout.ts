// POST /api/v1/auth/logout: ends the session of a token or cookie. The answer is the same if there is none.
import type { FastifyReply, FastifyRequest } from 'fastify'
import { endSessionOf } from '../../session/authenticate.ts'
import { sendSuccess } from '../answer/envelope.ts'
import { clearSessionCookie } from '../request/cookies.ts'
import { logOf } from '../request/log.ts'
import {
  bodyTokenOf,
  credentialOf,
  logDenied,
  type SessionAccess,
  sendDenied,
} from './session-access.ts'

export function logoutRoute(deps: SessionAccess) {
  return async (request: FastifyRequest, reply: FastifyReply) => {
    const token = bodyTokenOf(request)
    const shown =
      token === null
        ? credentialOf(deps, request)
        : { kind: 'refresh-token' as const, value: token }
    if (shown.kind === 'forged') return sendDenied(request, reply, shown)
    if (shown.kind !== 'absent') {
      const outcome = await endSessionOf(deps, shown)
      if (outcome.kind === 'ended') {
        const facts = { sessionId: outcome.id, userId: outcome.userId, reason: 'logout' }
        logOf(request).info({ event: 'session.ended', ...facts })
      } else {
        logDenied(request, { kind: 'denied', credential: shown.kind, reason: outcome.reason })
      }
    }
    // A cookie that is sent with a token may belong to another session.
    if (shown.kind === 'cookie') clearSessionCookie(reply)
    return sendSuccess(reply, {})
  }
}
