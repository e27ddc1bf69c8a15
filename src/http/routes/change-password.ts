// POST /api/v1/auth/password: a login that also replaces the password.
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { LoginAttempt, LoginOutcome } from '../../login/login.ts'
import type { NewHashDeps } from '../../login/new-hash.ts'
import { findPasswordFlaw } from '../../login/password-rules.ts'
import { operation, success, whole } from '../openapi/operation.ts'
import { refuse } from '../request/log.ts'
import { answerLogin, callerOf, EMAIL, LOGIN_DATA, LOGIN_HEADERS, PASSWORD } from './login.ts'
import { detailsOf } from './new-password.ts'

export const CHANGE_PASSWORD_OPERATION = operation({
  operationId: 'changePassword',
  tags: ['Login'],
  summary: 'Set a new password',
  description:
    'A login that also replaces the password. It needs no session, counts failed attempts like a login, and is answered like one. All other sessions of the user end, and all other devices are forgotten. A temporary password can be used here only, and once.',
  security: [],
  body: whole({
    email: EMAIL,
    currentPassword: PASSWORD,
    newPassword: { type: 'string', minLength: 1, examples: ['seven green boats at noon'] },
  }),
  response: success(
    'The password is replaced, and a new session is open.',
    LOGIN_DATA,
    LOGIN_HEADERS,
  ),
  failures: ['VALIDATION_ERROR', 'INVALID_CREDENTIALS', 'CSRF_FAILED', 'TOO_MANY_ATTEMPTS'],
})

type Body = { email: string; currentPassword: string; newPassword: string }

export function changePasswordRoute(deps: ChangeDeps) {
  return async (request: FastifyRequest, reply: FastifyReply) =>
    changePassword(deps, request, reply, request.body as Body)
}

export type ChangeDeps = {
  login: (attempt: LoginAttempt) => Promise<LoginOutcome>
  passwordRules: NewHashDeps['passwordRules']
}

export async function changePassword(
  { login, passwordRules: { minLength } }: ChangeDeps,
  request: FastifyRequest,
  reply: FastifyReply,
  { email, currentPassword: password, newPassword }: Body,
  send?: Parameters<typeof answerLogin>[3],
) {
  if (!newPassword.isWellFormed()) {
    const message = 'The new password has characters that cannot be stored'
    return refuse(request, reply, 'VALIDATION_ERROR', { fields: ['newPassword'], message })
  }
  // What depends on the user is judged after the current password is verified.
  const flaw = await findPasswordFlaw(newPassword, { minLength, current: password })
  if (flaw) return refuse(request, reply, 'VALIDATION_ERROR', detailsOf(flaw))
  const attempt = { email, password, newPassword, ...callerOf(request) }
  return answerLogin(request, reply, await login(attempt), send)
}
