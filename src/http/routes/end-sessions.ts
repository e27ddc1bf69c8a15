// DELETE /sessions/{id}, DELETE /sessions: ends one of a user's own sessions, or all others.
import { endOtherSessions, endOwnSession } from '../../session/own-sessions.ts'
import { sendFailure, sendSuccess } from '../answer/envelope.ts'
import { CHANGING, operation, success, whole } from '../openapi/operation.ts'
import { CLEARED_COOKIE_HEADER, NO_DATA, SESSION_ID } from '../openapi/schemas.ts'
import { clearSessionCookie } from '../request/cookies.ts'
import { reportEnded } from './ended-session.ts'
import { type SessionAccess, sendDenied, withSession } from './session-access.ts'

export const END_SESSION_OPERATION = operation({
  operationId: 'endSession',
  tags: ['Sessions'],
  summary: 'End one of your sessions',
  description: 'A session of another user is answered like one that does not exist.',
  security: CHANGING,
  params: whole({ id: { ...SESSION_ID, description: 'The id of the session.' } }),
  response: success('The session has ended.', NO_DATA, CLEARED_COOKIE_HEADER),
  failures: ['INVALID_TOKEN', 'CSRF_FAILED', 'NOT_FOUND'],
  options: { attachValidation: true },
})

export function endSessionRoute(deps: SessionAccess) {
  return withSession(deps, async (live, request, reply, cookie) => {
    if (request.validationError) return sendFailure(reply, 'NOT_FOUND')
    const id = (request.params as { id: string }).id.toLowerCase()
    if (!(await endOwnSession(deps, live, id))) return sendFailure(reply, 'NOT_FOUND')
    reportEnded(request, id, live.user.id, 'user')
    if (id === live.session.id && cookie !== null) clearSessionCookie(reply)
    return sendSuccess(reply, {})
  })
}

export const END_OTHER_SESSIONS_OPERATION = operation({
  operationId: 'endOtherSessions',
  tags: ['Sessions'],
  summary: 'End all your other sessions',
  description: 'The session of this request stays.',
  security: CHANGING,
  response: success('All other sessions have ended.', NO_DATA),
  failures: ['INVALID_TOKEN', 'CSRF_FAILED'],
})

export function endOtherSessionsRoute(deps: SessionAccess) {
  return withSession(deps, async (live, request, reply, cookie) => {
    const ended = await endOtherSessions(deps, live)
    if (ended === null) {
      // Another request has ended this session in the meantime.
      const credential = cookie === null ? 'access-token' : 'cookie'
      return sendDenied(request, reply, { kind: 'denied', credential, reason: 'session-ended' })
    }
    for (const id of ended) reportEnded(request, id, live.user.id, 'user')
    return sendSuccess(reply, {})
  })
}
