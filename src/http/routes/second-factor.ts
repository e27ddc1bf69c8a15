// POST /api/v1/auth/second-factor: a login that also changes the user's second factors.
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { FactorRequest } from '../../login/attempt.ts'
import { isSetUp } from '../../login/changes.ts'
import type { NewPasskey, PasskeyRules } from '../../login/passkey.ts'
import { sendFailure } from '../answer/envelope.ts'
import { named, object, operation, success, text, whole } from '../openapi/operation.ts'
import { SESSION_ID, TOKENS } from '../openapi/schemas.ts'
import { refuse } from '../request/log.ts'
import { changeCredentials, NEW_PASSWORD, type NewPasswordDeps } from './change-password.ts'
import {
  BASE64URL,
  EMAIL,
  LOGIN_HEADERS,
  PASSWORD,
  PROOF,
  type SendOpened,
  type Sent,
} from './login.ts'

/** An operator must change the configuration or the key file first. */
const RETRY_SETUP_SECONDS = 3600

const RECOVERY_CODES = {
  type: 'array',
  items: { type: 'string', examples: ['4kf2-9wpx-7m0c-q3hd-e8ts-z51r'] },
  description: 'New ones, which are never shown again. The earlier ones are void.',
}

const NEW_PASSKEY = {
  ...whole({
    id: BASE64URL,
    // Neither controls nor half characters, which a database may refuse.
    name: text('1 to 100 characters.', {
      ...{ pattern: '^(?=.*\\S)[^\\p{Cc}\\p{Cs}]{1,100}$', examples: ['Work laptop'] },
    }),
    publicKey: { ...BASE64URL, description: 'Of `response.getPublicKey()`.' },
    algorithm: { type: 'integer', enum: [-7, -8, -257] },
    clientDataJSON: BASE64URL,
    authenticatorData: { ...BASE64URL, description: 'Of `response.getAuthenticatorData()`.' },
  } satisfies Record<keyof NewPasskey, object>),
  description: 'What `navigator.credentials.create()` returned, in base64url.',
}
export const SECOND_FACTOR_OPERATION = operation({
  operationId: 'changeSecondFactor',
  tags: ['Login'],
  summary: 'Set up, replace or remove a second factor',
  description:
    'A login that also changes the second factors. It needs no session, counts failed attempts like a login, and is answered like one. All other sessions of the user end, and all other devices are forgotten. Send exactly one of: `secret` with `newOtp` sets or replaces the authenticator app; `secret: null` removes it; `newPasskey` adds a passkey; `remove` removes one; `recoveryCodes: true` makes new recovery codes. The first factor and a new app get new recovery codes too.',
  security: [],
  body: object(
    {
      email: EMAIL,
      password: PASSWORD,
      ...PROOF,
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
      newPasskey: NEW_PASSKEY,
      remove: { ...SESSION_ID, description: 'The id of a factor, as `GET /session` lists it.' },
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

const CHANGES = ['secret', 'newPasskey', 'remove', 'recoveryCodes'] as const
type Body = Omit<Sent, 'factorRequest'> & {
  secret?: string | null
  newOtp?: string
  newPasskey?: NewPasskey
  remove?: string
  recoveryCodes?: true
}

export type SecondFactorDeps = NewPasswordDeps & {
  /** False if second factors are turned off, or without a key to encrypt them. */
  canSetUp: () => boolean
  passkeys: PasskeyRules
}

export function secondFactorRoute(deps: SecondFactorDeps) {
  return async (request: FastifyRequest, reply: FastifyReply) => {
    const body = request.body as Body
    if (CHANGES.filter(name => body[name] !== undefined).length !== 1) {
      const message = `Send exactly one of ${CHANGES.join(', ')}`
      return refuse(request, reply, 'VALIDATION_ERROR', { fields: [...CHANGES], message })
    }
    if (typeof body.secret === 'string' && !body.newOtp?.trim()) {
      const message = 'newOtp is required: the code that the app shows for the new secret'
      return refuse(request, reply, 'VALIDATION_ERROR', { fields: ['newOtp'], message })
    }
    const factorRequest = toFactorRequest(body)
    return changeSecondFactor(deps, request, reply, { ...body, factorRequest })
  }
}

function toFactorRequest({ secret, newOtp = '', newPasskey, remove }: Body): FactorRequest {
  if (newPasskey) return { kind: 'add-passkey', passkey: newPasskey }
  if (remove !== undefined) return { kind: 'remove', id: remove.toLowerCase() }
  if (secret === null) return { kind: 'remove', id: null }
  if (secret === undefined) return { kind: 'new-recovery-codes' }
  return { kind: 'set-totp', secret, newOtp }
}

export async function changeSecondFactor(
  deps: SecondFactorDeps,
  request: FastifyRequest,
  reply: FastifyReply,
  sent: Sent & { factorRequest: FactorRequest },
  send?: SendOpened,
) {
  const { factorRequest } = sent
  const isPossible = factorRequest.kind !== 'add-passkey' || deps.passkeys.rpId !== null
  if (isSetUp(factorRequest.kind) && !(deps.canSetUp() && isPossible)) return sendUnavailable(reply)
  return changeCredentials(deps, request, reply, sent, send)
}

export function sendUnavailable(reply: FastifyReply): FastifyReply {
  const retryAfterSeconds = RETRY_SETUP_SECONDS
  return sendFailure(reply, 'SECOND_FACTOR_UNAVAILABLE', { retryAfterSeconds })
}
