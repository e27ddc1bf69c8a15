// The envelope around every answer, and all failures with their status and message.
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { SessionUser } from '../../domain/session.ts'
import { WINDOW_MINUTES } from '../../domain/throttle.ts'

export const PUBLIC_FAILURES = {
  VALIDATION_ERROR: { status: 400, message: 'Email and password are required' },
  BAD_REQUEST: {
    status: 400,
    message: 'The request could not be understood. Send valid HTTP to an https:// address.',
  },
  INVALID_CREDENTIALS: { status: 401, message: 'Invalid email or password' },
  INVALID_TOKEN: { status: 401, message: 'The session has ended. Please log in again.' },
  HTTPS_REQUIRED: { status: 403, message: 'This service answers over HTTPS only' },
  CSRF_FAILED: {
    status: 403,
    message:
      'The request could not be verified as your own: its origin or its X-CSRF-Token is missing or not accepted',
  },
  FORBIDDEN: { status: 403, message: 'Your role does not allow this' },
  PASSWORD_CHANGE_REQUIRED: {
    status: 403,
    message: 'This password is temporary. Please set a new one.',
  },
  SECOND_FACTOR_REQUIRED: {
    status: 403,
    message: 'Your account needs a second factor. Please set one up.',
  },
  NOT_FOUND: { status: 404, message: 'There is nothing at this address' },
  METHOD_NOT_ALLOWED: { status: 405, message: 'This method is not supported here' },
  REQUEST_TIMEOUT: { status: 408, message: 'The request took too long to arrive' },
  PAYLOAD_TOO_LARGE: { status: 413, message: 'The request body is too large' },
  UNSUPPORTED_MEDIA_TYPE: { status: 415, message: 'The request body must be application/json' },
  EXPECTATION_FAILED: { status: 417, message: 'This expectation cannot be met' },
  TOO_MANY_ATTEMPTS: {
    status: 429,
    message: `Too many login attempts. Please try again in ${WINDOW_MINUTES} minutes.`,
  },
  TOO_MANY_REQUESTS: { status: 429, message: 'Too many requests. Please try again shortly.' },
  HEADERS_TOO_LARGE: { status: 431, message: 'The request headers are too large' },
  INTERNAL_ERROR: {
    status: 500,
    message: 'An unexpected error occurred. Please try again later.',
  },
  SECOND_FACTOR_UNAVAILABLE: {
    status: 503,
    message: 'A second factor cannot be set up here. Please tell your administrator.',
  },
  SERVICE_UNAVAILABLE: {
    status: 503,
    message: 'The service cannot take this request now. Please try again shortly.',
  },
} as const

/** Sent by the admin API only. */
export const ADMIN_FAILURES = {
  INVALID_REQUEST: { status: 400, message: 'The request has a field that cannot be used' },
  EMAIL_TAKEN: { status: 409, message: 'Another user has this email' },
  PASSWORD_KNOWN: { status: 409, message: 'Somebody may know the password of this user' },
} as const

const FAILURES = { ...PUBLIC_FAILURES, ...ADMIN_FAILURES }

export type FailureCode = keyof typeof FAILURES
export type PublicFailureCode = keyof typeof PUBLIC_FAILURES

/** The wait that the specification prescribes; the Retry-After header has the exact seconds. */
export const SPECIFIED_RETRY_AFTER_SECONDS = WINDOW_MINUTES * 60

/** RFC 9110 demands a challenge in every 401. Browsers show no login dialog for this one (RFC 6750). */
const CHALLENGE = 'Bearer realm="login"'

export type Details = {
  /** It replaces the code's own message. */
  message?: string
  fields?: string[]
  /** What is wrong with the field, for programs. */
  reason?: string
  retryAfterSeconds?: number
  /** For pages, like the next two: the user, whose password is right. */
  userId?: string
  /** A new password is not enough, the user's role demands a second factor. */
  isFactorRequired?: boolean
  /** The user has a second factor. */
  hasSecondFactor?: boolean
  /** The caller sent an invalid token; the challenge then says so (RFC 6750). */
  isTokenRefused?: boolean
}

export function statusOf(code: FailureCode): number {
  return FAILURES[code].status
}

/** Cached bodies: without fields and own message, all failures with the same code have the same text. */
const TEXTS = new Map<string, string>()

export function failureText(code: FailureCode, details: Details = {}): string {
  if (details.fields || details.message) return JSON.stringify(failureBody(code, details))
  const text = TEXTS.get(code) ?? JSON.stringify(failureBody(code))
  TEXTS.set(code, text)
  return text
}

function failureBody(code: FailureCode, { fields, reason, message }: Details = {}) {
  const retryAfter = code === 'TOO_MANY_ATTEMPTS' ? SPECIFIED_RETRY_AFTER_SECONDS : undefined
  const text = message ?? FAILURES[code].message
  return { success: false, error: { code, message: text, fields, reason, retryAfter } }
}

export function sendSuccess(reply: FastifyReply, data: unknown): FastifyReply {
  return reply.code(200).send({ success: true, data })
}

/** The public fields of a user. */
export function toUserObject({ id, email, name, role, createdAt }: SessionUser) {
  const time = createdAt.toISOString()
  return { id, email, name, role, createdAt: time } satisfies Record<keyof SessionUser, string>
}

type Tokens = {
  accessToken: string
  refreshToken?: string
  expiresInSeconds: number
  recoveryCodes?: string[]
}

/** The answer to a login or refresh. A refresh by cookie has no refresh token. */
export function sendTokens(reply: FastifyReply, user: SessionUser, tokens: Tokens): FastifyReply {
  const { expiresInSeconds: expiresIn, accessToken, refreshToken, recoveryCodes } = tokens
  const issued = { accessToken, refreshToken, expiresIn, recoveryCodes }
  return sendSuccess(reply, { user: toUserObject(user), ...issued })
}

/** Answers a failure with a page, which has the failure's status and headers already. */
export type ShowFailure = (
  request: FastifyRequest,
  reply: FastifyReply,
  code: FailureCode,
  details: Details,
) => FastifyReply

/** What the config of a route has whose failures are pages, for its forms and for callers that show pages. */
export const pageConfig = (showFailure: ShowFailure) => ({ config: { showFailure } as object })

/** Whether the route is that of a page. */
export function isOfPage({ routeOptions }: FastifyRequest): boolean {
  return 'showFailure' in routeOptions.config
}

function showFailureOf(request: FastifyRequest): ShowFailure | undefined {
  const { method, headers, routeOptions } = request
  const isForUser = method === 'POST' || headers.accept?.includes('text/html')
  const { showFailure } = routeOptions.config as { showFailure?: ShowFailure }
  return isForUser ? showFailure : undefined
}

/** Whether a form of a page sends this request. */
export function isFormPost(request: FastifyRequest): boolean {
  return request.method === 'POST' && showFailureOf(request) !== undefined
}

export function sendFailure(
  reply: FastifyReply,
  code: FailureCode,
  details: Details = {},
): FastifyReply {
  const { retryAfterSeconds, isTokenRefused } = details
  if (statusOf(code) === 401) {
    const challenge = isTokenRefused ? `${CHALLENGE}, error="invalid_token"` : CHALLENGE
    reply.header('WWW-Authenticate', challenge)
  }
  if (retryAfterSeconds !== undefined) reply.header('retry-after', String(retryAfterSeconds))
  reply.code(statusOf(code))
  const show = showFailureOf(reply.request)
  if (show) return show(reply.request, reply, code, details)
  reply.header('content-type', 'application/json; charset=utf-8')
  return reply.send(failureText(code, details))
}
