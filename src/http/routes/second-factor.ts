// POST /api/v1/auth/second-factor: a login that also changes the user's second factors.
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { FactorRequest } from '../../login/attempt.ts'
import { sendFailure } from '../answer/envelope.ts'
import { named, object, operation, success } from '../openapi/operation.ts'
import { TOKENS } from '../openapi/schemas.ts'
import { refuse } from '../request/log.ts'
import { changeCredentials, NEW_PASSWORD, type NewPasswordDeps } from './change-password.ts'
import { EMAIL, LOGIN_HEADERS, OTP, PASSWORD, type SendOpened, type Sent } from './login.ts'

/** An operator must change the configuration or the key file first. */
const RETRY_SETUP_SECONDS = 3600

const RECOVERY_CODES = {
  type: 'array',
  items: { type: 'string', examples: ['4kf2-9wpx-7m0c-q3hd-e8ts-z51r'] },
  description: 'New ones, which are never shown again. The earlier ones are void.',
}

export const SECOND_FACTOR_OPERATION = operation({
  operationId: 'changeSecondFactor',
  tags: ['Login'],
  summary: 'Set up, replace or remove a second factor',
  description:
    'A login that also changes the second factors. It needs no session, counts failed attempts like a login, and is answered like one. All other sessions of the user end, and all other devices are forgotten. Send exactly one of: `secret` with `newOtp` sets or replaces the authenticator app; `secret: null` removes it; `recoveryCodes: true` makes new recovery codes. A new app gets new recovery codes too.',
  security: [],
  body: object(
    {
      email: EMAIL,
      password: PASSWORD,
      otp: OTP,
      newPassword: {
        ...NEW_PASSWORD,
        description: 'Also replaces the password, as a temporary one demands.',
      },
      secret: {
        type: ['string', 'null'],
        description: '20 to 64 random bytes in base32, which the caller shows to the app.',
        examples: ['QZ4KM7TDWX2HRB5N3VGLCYEJ6UAFS7PO'],
      },
      newOtp: {
        type: 'string',
        description: 'The code that the app shows for `secret`. It is used up.',
        examples: ['492039'],
      },
      recoveryCodes: { type: 'boolean', const: true },
    },
    ['email', 'password'],
  ),
  response: success(
    'The change is made, and a new session is open.',
    named(
      'TokensAndCodes',
      object({ ...TOKENS, recoveryCodes: RECOVERY_CODES }, Object.keys(TOKENS)),
    ),
    LOGIN_HEADERS,
  ),
  failures: [
    ...(['VALIDATION_ERROR', 'INVALID_CREDENTIALS', 'CSRF_FAILED'] as const),
    ...(['PASSWORD_CHANGE_REQUIRED', 'SECOND_FACTOR_REQUIRED'] as const),
    ...(['TOO_MANY_ATTEMPTS', 'SECOND_FACTOR_UNAVAILABLE'] as const),
  ],
})

type Body = Omit<Sent, 'factorRequest'> & {
  secret?: string | null
  newOtp?: string
  recoveryCodes?: true
}

export type SecondFactorDeps = NewPasswordDeps & {
  /** False if second factors are turned off, or without a key to encrypt them. */
  canSetUp: () => boolean
}

export function secondFactorRoute(deps: SecondFactorDeps) {
  return async (request: FastifyRequest, reply: FastifyReply) => {
    const { secret, newOtp = '', recoveryCodes, ...login } = request.body as Body
    const given = [secret !== undefined, recoveryCodes !== undefined]
    if (given.filter(Boolean).length !== 1) {
      const message = 'Send exactly one of secret and recoveryCodes'
      const fields = ['secret', 'recoveryCodes']
      return refuse(request, reply, 'VALIDATION_ERROR', { fields, message })
    }
    if (typeof secret === 'string' && newOtp.trim() === '') {
      const message = 'newOtp is required: the code that the app shows for the new secret'
      return refuse(request, reply, 'VALIDATION_ERROR', { fields: ['newOtp'], message })
    }
    const factorRequest: FactorRequest =
      secret === undefined
        ? { kind: 'new-recovery-codes' }
        : secret === null
          ? { kind: 'remove-totp' }
          : { kind: 'set-totp', secret, newOtp }
    return changeSecondFactor(deps, request, reply, { ...login, factorRequest })
  }
}

export async function changeSecondFactor(
  deps: SecondFactorDeps,
  request: FastifyRequest,
  reply: FastifyReply,
  sent: Sent & { factorRequest: FactorRequest },
  send?: SendOpened,
) {
  if (sent.factorRequest.kind === 'set-totp' && !deps.canSetUp()) return sendUnavailable(reply)
  return changeCredentials(deps, request, reply, sent, send)
}

export function sendUnavailable(reply: FastifyReply): FastifyReply {
  const retryAfterSeconds = RETRY_SETUP_SECONDS
  return sendFailure(reply, 'SECOND_FACTOR_UNAVAILABLE', { retryAfterSeconds })
}
