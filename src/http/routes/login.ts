// POST /api/v1/auth/login: from the request to an attempt, from its outcome to an answer and a log line.
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { LoginAttempt, LoginOutcome } from '../../login/login.ts'
import { sendFailure, sendSuccess, toUserObject } from '../answer/envelope.ts'
import { clientOf } from '../request/client.ts'
import {
  deviceCookieOf,
  sessionCookieOf,
  setDeviceCookie,
  setSessionCookie,
} from '../request/cookies.ts'
import { sendCsrfToken } from '../request/csrf.ts'
import { logOf } from '../request/log.ts'

/** A caller whose attempt found no place need not wait long for one. */
const RETRY_SHED_SECONDS = 1

/** An e-mail of white space is an empty one; a password of spaces is a password. */
export const loginBody = {
  type: 'object',
  required: ['email', 'password'],
  properties: {
    email: { type: 'string', pattern: '\\S' },
    password: { type: 'string', minLength: 1 },
  },
}

export type LoginBody = { email: string; password: string }

export function loginRoute(login: (attempt: LoginAttempt) => Promise<LoginOutcome>) {
  return async (request: FastifyRequest<{ Body: LoginBody }>, reply: FastifyReply) => {
    const { email, password } = request.body
    const attempt = {
      email,
      password,
      client: clientOf(request),
      deviceToken: deviceCookieOf(request),
      sessionCookie: sessionCookieOf(request),
    }
    const outcome = await login(attempt)
    const log = logOf(request)

    switch (outcome.kind) {
      case 'signed-in': {
        const { user, session, deviceToken, rehash } = outcome
        const durationMs = Math.round(reply.elapsedTime)
        const opened = { userId: user.id, sessionId: session.id, durationMs }
        log.info({ event: 'login.succeeded', ...opened })
        for (const { id: sessionId, userId, reason } of session.ended) {
          log.info({ event: 'session.ended', sessionId, userId, reason })
        }
        if (session.cookie !== null) {
          setSessionCookie(reply, session.cookie)
          sendCsrfToken(reply, session.cookie)
        }
        if (deviceToken !== null) setDeviceCookie(reply, deviceToken)
        sendSuccess(reply, {
          user: toUserObject(user),
          accessToken: session.accessToken,
          refreshToken: session.refreshToken,
          expiresIn: session.expiresInSeconds,
        })
        // The answer has been sent; the operation ends after the new hash is stored.
        await rehash?.().catch(error =>
          log.error({ event: 'login.rehash_failed', userId: user.id, err: error }),
        )
        return reply
      }
      case 'rejected':
        log.warn({ event: 'login.failed', email: toLogged(outcome.email), reason: outcome.reason })
        if (outcome.alarm) log.error({ event: 'account.alarm', ...outcome.alarm })
        return sendFailure(reply, 'INVALID_CREDENTIALS')
      case 'throttled': {
        const { email, scope, lockedUserId, retryAfterSeconds } = outcome
        log.counted('warn', { event: 'login.throttled', email: toLogged(email), scope })
        if (lockedUserId) log.warn({ event: 'account.locked', userId: lockedUserId })
        return sendFailure(reply, 'TOO_MANY_ATTEMPTS', { retryAfterSeconds })
      }
      case 'shed':
        log.counted('warn', { event: 'login.shed', email: toLogged(outcome.email) })
        return sendFailure(reply, 'SERVICE_UNAVAILABLE', { retryAfterSeconds: RETRY_SHED_SECONDS })
      default:
        return outcome satisfies never
    }
  }
}

/** No stored e-mail is longer, and a log line should not be as long as a request may be. */
function toLogged(email: string): string {
  return email.length > 254 ? `${email.slice(0, 254)}…` : email
}
