// POST /api/v1/auth/refresh: a new access token, by refresh token or by session cookie.
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { RefreshedSession } from '../../domain/refresh-token.ts'
import { type RefreshDeps, refresh, renewAccess } from '../../session/refresh.ts'
import { sendFailure, sendTokens } from '../answer/envelope.ts'
import { named, object, operation, success } from '../openapi/operation.ts'
import { REFRESH_TOKEN_BODY, TOKENS } from '../openapi/schemas.ts'
import { clientOf } from '../request/client.ts'
import { givenRequestId, logOf } from '../request/log.ts'
import { metricsOf, reportEnded } from './ended-session.ts'
import {
  accessBy,
  bodyTokenOf,
  cookieOf,
  refuseOtherBody,
  type SessionAccess,
  sendDenied,
} from './session-access.ts'

type Deps = SessionAccess & RefreshDeps

export const REFRESH_OPERATION = operation({
  operationId: 'refresh',
  tags: ['Login'],
  summary: 'Get a new access token',
  description:
    'With a refresh token in the body, the answer has its successor. If the answer is lost, repeat the request within 60 seconds with the same `X-Request-ID`: it gets the same successor. Send a new random id with each refresh. Without an id, a repetition must come from the same address (IPv6: the same /64 network) with the same `User-Agent`. A replaced token that another caller uses, or that is used later or after its successor, ends the session. With a session cookie, the answer has no refresh token.',
  security: [{}, { sessionCookie: [], csrfToken: [] }],
  body: REFRESH_TOKEN_BODY,
  response: success(
    'A new access token.',
    named('RenewedTokens', object(TOKENS, ['user', 'accessToken', 'expiresIn'])),
  ),
  failures: ['INVALID_TOKEN', 'CSRF_FAILED', 'TOO_MANY_REQUESTS'],
  options: { attachValidation: true },
})

export function refreshRoute(deps: Deps) {
  return async (request: FastifyRequest, reply: FastifyReply) => {
    const token = bodyTokenOf(request)
    if (token === null) return refreshByCookie(deps, request, reply)

    const { group, userAgent } = clientOf(request)
    const caller = { requestId: givenRequestId(request), group, userAgent }
    const outcome = await refresh(deps, token, caller)
    switch (outcome.kind) {
      case 'refreshed': {
        const { live, repeatedBy } = outcome
        if (repeatedBy) metricsOf(request).refreshRepeated(repeatedBy)
        logRefreshed(request, live, repeatedBy !== null)
        return sendTokens(reply, live.user, outcome)
      }
      case 'reused': {
        const { sessionId, userId, isOtherCaller } = outcome
        if (isOtherCaller) metricsOf(request).refreshRepeated('refused')
        const facts = { sessionId, userId, ...(isOtherCaller && { otherCaller: true }) }
        logOf(request).error({ event: 'session.reuse_detected', ...facts })
        reportEnded(request, sessionId, userId, 'reuse')
        return sendFailure(reply, 'INVALID_TOKEN', { isTokenRefused: true })
      }
      case 'limited':
        return sendDenied(request, reply, outcome)
      case 'invalid':
        return sendDenied(request, reply, {
          ...{ ...outcome, kind: 'denied', credential: 'refresh-token' },
        })
      default:
        return outcome satisfies never
    }
  }
}

/** The answer contains no refresh token, because scripts of the page could read it. */
async function refreshByCookie(deps: Deps, request: FastifyRequest, reply: FastifyReply) {
  const access = await accessBy(deps, cookieOf(deps, request))
  if (access.kind === 'absent') {
    return refuseOtherBody(request, reply) ?? sendDenied(request, reply, access)
  }
  if (access.kind !== 'granted') return sendDenied(request, reply, access)
  const outcome = renewAccess(deps, access.live)
  if (outcome.kind === 'limited') return sendDenied(request, reply, outcome)
  logRefreshed(request, access.live, false)
  return sendTokens(reply, access.live.user, outcome)
}

function logRefreshed(
  request: FastifyRequest,
  { session, user }: RefreshedSession,
  isRepeated: boolean,
): void {
  const facts = { sessionId: session.id, userId: user.id, ...(isRepeated && { repeated: true }) }
  logOf(request).info({ event: 'session.refreshed', ...facts })
}
