// POST /api/v1/auth/code: an application of another site redeems a one-time code.
import type { FastifyReply, FastifyRequest } from 'fastify'
import { type RedeemDeps, redeemCode } from '../../session/redeem-code.ts'
import { sendFailure, sendTokens } from '../answer/envelope.ts'
import { operation, success, text, whole } from '../openapi/operation.ts'
import { clientOf } from '../request/client.ts'
import { logCounted, logOf } from '../request/log.ts'
import { metricsOf, reportEnded } from './ended-session.ts'
import { LOGIN_DATA } from './login.ts'

export const REDEEM_CODE_OPERATION = operation({
  operationId: 'redeemCode',
  tags: ['Login'],
  summary: 'Log in with a code of the login page',
  description:
    'Opens a session for an application of another site. The login page has added the code to the address of the application; the verifier is the text whose SHA-256 was its `challenge`. A code is valid for 60 seconds, once, while the user is logged in at the page. A script may redeem it only in the origin of the address. No cookie is set.',
  security: [],
  body: whole({
    code: { type: 'string', examples: ['Zk3v0ZbY2m4xQ8sT1uW6pLrN5aHcDfGjKqXoEiVwByM'] },
    verifier: text('43 to 128 letters, digits and `-._~`.', {
      examples: ['dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk'],
    }),
  }),
  response: success('The session is open.', LOGIN_DATA),
  failures: ['VALIDATION_ERROR', 'INVALID_TOKEN'],
})

export function redeemCodeRoute(deps: RedeemDeps) {
  return async (request: FastifyRequest, reply: FastifyReply) => {
    const { code, verifier } = request.body as { code: string; verifier: string }
    const { origin } = request.headers
    const outcome = await redeemCode(deps, { code, verifier, origin, client: clientOf(request) })
    if (outcome.kind === 'invalid') {
      const { ended: page } = outcome
      if (page) reportEnded(request, page.id, page.userId, 'second-factor')
      logCounted(request, 'info', { event: 'code.refused', reason: outcome.reason })
      return sendFailure(reply, 'INVALID_TOKEN', { isTokenRefused: true })
    }
    const { user, sessionId, ended } = outcome
    logOf(request).info({ event: 'code.redeemed', userId: user.id, sessionId })
    metricsOf(request).sessionOpened()
    for (const { id, userId, reason } of ended) reportEnded(request, id, userId, reason)
    return sendTokens(reply, user, outcome)
  }
}
