// POST /api/v1/auth/logout: ends the session of a token or cookie. The answer is the same if there is none.
import type { FastifyReply, FastifyRequest } from 'fastify'
import { type Credential, endSessionOf } from '../../session/authenticate.ts'
import { sendSuccess } from '../answer/envelope.ts'
import { CHANGING, operation, success } from '../openapi/operation.ts'
import { CLEARED_COOKIE_HEADER, NO_DATA, REFRESH_TOKEN_BODY } from '../openapi/schemas.ts'
import { clearSessionCookie } from '../request/cookies.ts'
import { reportEnded } from './ended-session.ts'
import {
  bodyTokenOf,
  credentialOf,
  logDenied,
  refuseOtherBody,
  type SessionAccess,
  sendDenied,
} from './session-access.ts'

export const LOGOUT_OPERATION = operation({
  operationId: 'logOut',
  tags: ['Login'],
  summary: 'Log out',
  description:
    'Ends the session of the refresh token, access token or session cookie. The answer is the same if there is none. Other services accept its access token until it expires, unless they follow `/.well-known/ended-sessions`.',
  security: [{}, ...CHANGING],
  body: REFRESH_TOKEN_BODY,
  response: success('The session has ended.', NO_DATA, CLEARED_COOKIE_HEADER),
  failures: ['CSRF_FAILED'],
  options: { attachValidation: true },
})

export function logoutRoute(deps: SessionAccess) {
  return async (request: FastifyRequest, reply: FastifyReply) => {
    const token = bodyTokenOf(request)
    const shown =
      token === null
        ? credentialOf(deps, request)
        : { kind: 'refresh-token' as const, value: token }
    if (shown.kind === 'cross-site') return sendDenied(request, reply, shown)
    if (shown.kind === 'absent') return refuseOtherBody(request, reply) ?? sendSuccess(reply, {})
    await logOut(deps, request, reply, shown)
    return sendSuccess(reply, {})
  }
}

export async function logOut(
  deps: SessionAccess,
  request: FastifyRequest,
  reply: FastifyReply,
  shown: Credential,
): Promise<void> {
  const outcome = await endSessionOf(deps, shown)
  if (outcome.kind === 'ended') {
    reportEnded(request, outcome.id, outcome.userId, 'logout')
  } else {
    logDenied(request, { kind: 'denied', credential: shown.kind, reason: outcome.reason })
  }
  // A cookie that is sent with a token may belong to another session.
  if (shown.kind === 'cookie') clearSessionCookie(reply)
}
