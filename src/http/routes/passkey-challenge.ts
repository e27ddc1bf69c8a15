// GET /api/v1/auth/passkey-challenge: what a passkey signs, new or used.
import type { FastifyReply, FastifyRequest } from 'fastify'
import { CHALLENGE_SECONDS, type PasskeyRules } from '../../login/passkey.ts'
import { sendSuccess } from '../answer/envelope.ts'
import { named, operation, success, whole } from '../openapi/operation.ts'
import { BASE64URL } from './login.ts'
import { sendUnavailable } from './second-factor.ts'

const DATA = whole({
  challenge: BASE64URL,
  rpId: { type: 'string', examples: ['login.example.com'] },
  expiresIn: { type: 'integer', description: 'Seconds.', examples: [CHALLENGE_SECONDS] },
})

export const CHALLENGE_OPERATION = operation({
  operationId: 'getPasskeyChallenge',
  tags: ['Login'],
  summary: 'Get a challenge for a passkey',
  description:
    'For `navigator.credentials.get()` and `create()` on a page of this address: passkeys of other pages are refused. Each passkey signs in with a challenge once.',
  security: [],
  response: success('A new challenge.', named('PasskeyChallenge', DATA)),
  failures: ['SECOND_FACTOR_UNAVAILABLE'],
})

export function challengeRoute({ rpId, challenges }: PasskeyRules, clock: () => Date) {
  return async (_request: FastifyRequest, reply: FastifyReply) => {
    if (rpId === null) return sendUnavailable(reply)
    const challenge = challenges.make(clock())
    return sendSuccess(reply, { challenge, rpId, expiresIn: CHALLENGE_SECONDS })
  }
}
