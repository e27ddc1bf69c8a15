// POST /api/v1/auth/login: turns the request into an attempt, and its outcome into an answer and log lines.
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { LoginAttempt, LoginOutcome } from '../../login/attempt.ts'
import type { Assertion } from '../../login/passkey.ts'
import { sendFailure, sendTokens } from '../answer/envelope.ts'
import { header, named, object, operation, success, whole } from '../openapi/operation.ts'
import { CSRF_TOKEN_HEADER, TOKENS } from '../openapi/schemas.ts'
import { clientOf } from '../request/client.ts'
import {
  deviceCookieOf,
  sessionCookieOf,
  setDeviceCookie,
  setSecondStepCookie,
  setSessionCookie,
} from '../request/cookies.ts'
import { sendCsrfToken } from '../request/csrf.ts'
import { logCounted, loggedEmail, logOf, refuse } from '../request/log.ts'
import { reportEnded } from './ended-session.ts'
import { detailsOfFactor } from './factor-flaw.ts'
import { detailsOf } from './new-password.ts'

/** The hash queue is short, so a slot is soon free again. */
const RETRY_SHED_SECONDS = 1

/** An email of white space counts as empty. */
export const EMAIL = {
  type: 'string',
  pattern: '\\S',
  description: 'Upper and lower case are not distinguished.',
  examples: ['kate@example.com'],
}
/** A password may consist of spaces. */
export const PASSWORD = { type: 'string', minLength: 1, examples: ['correct horse battery'] }

/** Spaces, and in a recovery code case and hyphens, do not matter. */
export const OTP = {
  type: 'string',
  description:
    'The second step, for users that have one: six digits of an authenticator app, or a recovery code. Others may leave it out or empty.',
  examples: ['492039'],
}

/** A part of what a browser returns of a passkey. */
export const BASE64URL = { type: 'string', examples: ['eyJ0eXBlIjoid2ViYXV0aG4u…'] }
export const PASSKEY = {
  ...whole({
    id: BASE64URL,
    clientDataJSON: BASE64URL,
    authenticatorData: BASE64URL,
    signature: BASE64URL,
  } satisfies Record<keyof Assertion, object>),
  description: 'In place of `otp`: what `navigator.credentials.get()` returned, in base64url.',
}
export const PROOF = { otp: OTP, passkey: PASSKEY }

export const LOGIN_DATA = named('Tokens', whole(TOKENS))
export const LOGIN_HEADERS = {
  ...CSRF_TOKEN_HEADER,
  'Set-Cookie': header(
    'Only for browsers: `__Host-session`, `__Host-device`, and `__Host-second-step` for a user with a second factor.',
  ),
}

export const LOGIN_OPERATION = operation({
  operationId: 'logIn',
  tags: ['Login'],
  summary: 'Log in with email and password',
  description:
    'Opens a session. A browser, which sends `Sec-Fetch-Site`, also gets a session cookie, a device cookie and a CSRF token. Without use, a refresh token is valid for 7 days and a session cookie for 30 minutes (`SESSION_IDLE_MINUTES`). A session ends when neither is valid, and at the latest 30 days (`SESSION_MAX_DAYS`) after the login.',
  security: [],
  body: object({ email: EMAIL, password: PASSWORD, ...PROOF }, ['email', 'password']),
  response: success('The session is open.', LOGIN_DATA, LOGIN_HEADERS),
  failures: [
    'VALIDATION_ERROR',
    'INVALID_CREDENTIALS',
    'CSRF_FAILED',
    'PASSWORD_CHANGE_REQUIRED',
    'SECOND_FACTOR_REQUIRED',
    'TOO_MANY_ATTEMPTS',
  ],
})

export type LogIn = (attempt: LoginAttempt) => Promise<LoginOutcome>

export function loginRoute(login: LogIn) {
  return async (request: FastifyRequest, reply: FastifyReply) => {
    const { email, password, otp, passkey } = request.body as Sent
    return logIn(login, request, reply, { email, password, otp, passkey })
  }
}

/** What a body or a form says of an attempt. */
export type Sent = Pick<LoginAttempt, 'email' | 'password' | 'newPassword' | 'factorRequest'> & {
  otp?: string | undefined
  passkey?: Assertion | undefined
}

export async function logIn(
  login: LogIn,
  request: FastifyRequest,
  reply: FastifyReply,
  sent: Sent,
  send?: SendOpened,
) {
  if (sent.passkey && sent.otp?.trim()) {
    const message = 'Send a code or a passkey, not both'
    return refuse(request, reply, 'VALIDATION_ERROR', { fields: ['otp', 'passkey'], message })
  }
  return answerLogin(request, reply, await login(toAttempt(request, sent)), send)
}

/** Takes these fields only, whatever else a body has. */
function toAttempt(
  request: FastifyRequest,
  { email, password, otp = '', passkey, newPassword, factorRequest }: Sent,
): LoginAttempt {
  return {
    ...{ email, password, newPassword, factorRequest },
    proof: { otp, passkey: passkey ?? null },
    client: clientOf(request),
    deviceToken: deviceCookieOf(request),
    sessionCookie: sessionCookieOf(request),
  }
}

const FACTOR_LINES = {
  set: { event: 'second_factor.set' },
  'new-recovery-codes': { event: 'recovery_codes.made' },
  remove: { event: 'second_factor.removed' },
} as const

export type LoggedIn = Extract<LoginOutcome, { kind: 'signed-in' }>

function sendOpened(reply: FastifyReply, { user, session, secondFactor }: LoggedIn): void {
  const { recoveryCodes } = secondFactor
  if (session.cookie !== null) sendCsrfToken(reply, session.cookie)
  sendTokens(reply, user, { ...session, ...(recoveryCodes && { recoveryCodes }) })
}

/** Answers a login that succeeded. */
export type SendOpened = (reply: FastifyReply, outcome: LoggedIn) => void

async function answerLogin(
  request: FastifyRequest,
  reply: FastifyReply,
  outcome: LoginOutcome,
  send: SendOpened = sendOpened,
) {
  switch (outcome.kind) {
    case 'signed-in': {
      const log = logOf(request)
      const { user, session, deviceCookie, isPasswordChanged, secondFactor, rehash } = outcome
      const userId = user.id
      const durationMs = Math.round(reply.elapsedTime)
      const opened = { userId, sessionId: session.id, durationMs }
      log.info({ event: 'login.succeeded', ...opened })
      if (isPasswordChanged) log.info({ event: 'password.changed', userId })
      const { change, isRecoveryCodeUsed } = secondFactor
      if (isRecoveryCodeUsed) log.info({ event: 'recovery_code.used', userId })
      if (change) log.info({ ...FACTOR_LINES[change], userId })
      for (const ended of session.ended) {
        reportEnded(request, ended.id, ended.userId, ended.reason)
      }
      if (session.cookie !== null) setSessionCookie(reply, session.cookie)
      if (deviceCookie !== null) {
        setDeviceCookie(reply, deviceCookie)
        if (secondFactor.isOn) setSecondStepCookie(reply, deviceCookie)
      }
      send(reply, outcome)
      // The answer has been sent; the operation ends after the new hash is stored.
      await rehash?.().catch(error =>
        log.error({ event: 'login.rehash_failed', userId, err: error }),
      )
      return reply
    }
    case 'change-required': {
      const { userId, hasSecondFactor, isFactorRequired } = outcome
      logOf(request).info({ event: 'password.change_required', userId })
      const details = { userId, hasSecondFactor, isFactorRequired }
      return sendFailure(reply, 'PASSWORD_CHANGE_REQUIRED', details)
    }
    case 'second-factor-required':
      logOf(request).info({ event: 'second_factor.required', userId: outcome.userId })
      return sendFailure(reply, 'SECOND_FACTOR_REQUIRED', { userId: outcome.userId })
    case 'unfit-factor':
      logOf(request).info({
        event: 'second_factor.refused',
        ...{ userId: outcome.userId, reason: outcome.flaw.reason },
      })
      return sendFailure(reply, 'VALIDATION_ERROR', detailsOfFactor(outcome.flaw))
    case 'unfit-password':
      logOf(request).info({ event: 'password.refused', userId: outcome.userId })
      return sendFailure(reply, 'VALIDATION_ERROR', detailsOf(outcome.flaw))
    case 'rejected': {
      const { email, reason, alarm, passwordKnown, codeOffsetSeconds } = outcome
      const log = logOf(request)
      sendFailure(reply, 'INVALID_CREDENTIALS')
      // After the answer, which none of these facts may delay.
      const logged = loggedEmail(email, reason !== 'unknown-email')
      const offset = codeOffsetSeconds !== null && { seconds: Math.abs(codeOffsetSeconds) }
      log.warn({ event: 'login.failed', email: logged, reason, ...offset })
      if (alarm) log.error({ event: 'account.alarm', ...alarm })
      if (passwordKnown) log.error({ event: 'account.password_known', ...passwordKnown })
      return reply
    }
    case 'throttled': {
      const { email, scope, lockedUserId, retryAfterSeconds } = outcome
      logCounted(request, 'warn', { event: 'login.throttled', email: loggedEmail(email), scope })
      if (lockedUserId) logOf(request).warn({ event: 'account.locked', userId: lockedUserId })
      return sendFailure(reply, 'TOO_MANY_ATTEMPTS', { retryAfterSeconds })
    }
    case 'shed': {
      const { email, reason } = outcome
      logCounted(request, 'warn', { event: 'login.shed', email: loggedEmail(email), reason })
      return sendFailure(reply, 'SERVICE_UNAVAILABLE', { retryAfterSeconds: RETRY_SHED_SECONDS })
    }
    default:
      return outcome satisfies never
  }
}
