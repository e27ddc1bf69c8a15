// POST /api/v1/auth/code/issue: gives the login page the address of the application, with a one-time code in it.
import type { FastifyReply, FastifyRequest } from 'fastify'
import { type IssueDeps, issueCode } from '../../session/issue-code.ts'
import { sendFailure, sendSuccess } from '../answer/envelope.ts'
import { named, operation, success, whole } from '../openapi/operation.ts'
import { acceptedCallback, originOf } from '../page/return-to.ts'
import { logOf, logRefused } from '../request/log.ts'
import { sendLimited } from './refresh.ts'
import { accessBy, cookieOf, type SessionAccess, sendDenied } from './session-access.ts'

export const ISSUE_CODE_OPERATION = operation({
  operationId: 'issueCode',
  tags: ['Login'],
  summary: 'Get a code for an application of another site',
  description:
    'Only the login page calls it, by cookie: no other origin may. The code is valid for 60 seconds, once.',
  security: [{ sessionCookie: [], csrfToken: [] }],
  body: whole({
    returnTo: {
      type: 'string',
      description: 'An address that `CODE_CALLBACKS` lists, with any query.',
      examples: ['https://app.example.net/signed-in'],
    },
    challenge: {
      type: 'string',
      description: 'SHA-256 of the application’s verifier, in base64url.',
      examples: ['E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM'],
    },
  }),
  response: success(
    'The code, in the address to go to.',
    named('CodeLocation', whole({ location: { type: 'string' } })),
  ),
  failures: ['VALIDATION_ERROR', 'INVALID_TOKEN', 'CSRF_FAILED', 'TOO_MANY_REQUESTS'],
})

export function issueCodeRoute(deps: SessionAccess & IssueDeps, callbacks: readonly string[]) {
  // An application that CORS_ORIGINS lists may use the cookie, but not give it to other sites.
  const pageOnly = { ...deps, isListedOrigin: () => false }
  return async (request: FastifyRequest, reply: FastifyReply) => {
    // An access token does not count: its holder could open sessions that outlive it.
    const access = await accessBy(pageOnly, cookieOf(pageOnly, request))
    if (access.kind !== 'granted') return sendDenied(request, reply, access)
    const { returnTo, challenge } = request.body as { returnTo: string; challenge: string }
    const callback = acceptedCallback(returnTo, challenge, callbacks)
    if (callback === null) {
      logRefused(request, 'return-to', originOf(returnTo))
      const message = 'CODE_CALLBACKS does not list this address, or the challenge is not valid'
      return sendFailure(reply, 'VALIDATION_ERROR', { message, fields: ['returnTo', 'challenge'] })
    }
    const outcome = await issueCode(deps, access.live, callback, challenge)
    if (outcome.kind === 'limited') return sendLimited(request, reply, outcome)
    const { session, user } = access.live
    const facts = { sessionId: session.id, userId: user.id, callback }
    logOf(request).info({ event: 'code.issued', ...facts })
    const separator = returnTo.includes('?') ? '&' : '?'
    return sendSuccess(reply, { location: `${returnTo}${separator}code=${outcome.code}` })
  }
}
