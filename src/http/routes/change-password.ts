// POST /api/v1/auth/password: a login that also replaces the password.
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { ChangeDeps } from '../../login/changes.ts'
import { findPasswordFlaw } from '../../login/password-rules.ts'
import type { Details } from '../answer/envelope.ts'
import { object, operation, success } from '../openapi/operation.ts'
import { refuse } from '../request/log.ts'
import {
  EMAIL,
  LOGIN_DATA,
  LOGIN_HEADERS,
  type LogIn,
  logIn,
  PASSWORD,
  PROOF,
  type SendOpened,
  type Sent,
} from './login.ts'
import { detailsOf } from './new-password.ts'

export const NEW_PASSWORD = {
  ...{ type: 'string', minLength: 1 },
  examples: ['seven green boats at noon'],
}

export const CHANGE_PASSWORD_OPERATION = operation({
  operationId: 'changePassword',
  tags: ['Login'],
  summary: 'Set a new password',
  description:
    'A login that also replaces the password. It needs no session, counts failed attempts like a login, and is answered like one. All other sessions of the user end, and all other devices are forgotten. A temporary password can be used here only, and once.',
  security: [],
  body: object({ email: EMAIL, currentPassword: PASSWORD, newPassword: NEW_PASSWORD, ...PROOF }, [
    'email',
    'currentPassword',
    'newPassword',
  ]),
  response: success(
    'The password is replaced, and a new session is open.',
    LOGIN_DATA,
    LOGIN_HEADERS,
  ),
  failures: [
    ...(['VALIDATION_ERROR', 'INVALID_CREDENTIALS', 'CSRF_FAILED'] as const),
    ...(['SECOND_FACTOR_REQUIRED', 'TOO_MANY_ATTEMPTS'] as const),
  ],
})

type Body = Sent & Record<'currentPassword' | 'newPassword', string>

export function changePasswordRoute(deps: NewPasswordDeps) {
  return async (request: FastifyRequest, reply: FastifyReply) => {
    const { email, currentPassword: password, newPassword, otp, passkey } = request.body as Body
    return changeCredentials(deps, request, reply, { email, password, newPassword, otp, passkey })
  }
}

export type NewPasswordDeps = {
  login: LogIn
  passwordRules: ChangeDeps['passwordRules']
}

/** A login that also replaces the password, the second factors or both. */
export async function changeCredentials(
  deps: NewPasswordDeps,
  request: FastifyRequest,
  reply: FastifyReply,
  sent: Sent,
  send?: SendOpened,
) {
  const { newPassword, password } = sent
  if (newPassword !== undefined) {
    const details = await problemWithNewPassword(deps, newPassword, password)
    if (details) return refuse(request, reply, 'VALIDATION_ERROR', details)
  }
  return logIn(deps.login, request, reply, sent, send)
}

/** Null if there is none. What depends on the user is judged after the current password is verified. */
async function problemWithNewPassword(
  { passwordRules: { minLength } }: NewPasswordDeps,
  newPassword: string,
  current: string,
): Promise<Details | null> {
  if (!newPassword.isWellFormed()) {
    const message = 'The new password has characters that cannot be stored'
    return { fields: ['newPassword'], message }
  }
  const flaw = await findPasswordFlaw(newPassword, { minLength, current })
  return flaw && detailsOf(flaw)
}
