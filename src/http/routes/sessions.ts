// GET /session, GET /sessions, DELETE /sessions/{id}, DELETE /sessions: a user's own sessions.
import type { Session } from '../../domain/session.ts'
import { UUID_PATTERN } from '../../identifiers.ts'
import { sendFailure, sendSuccess, toUserObject } from '../answer/envelope.ts'
import { CHANGING, object, operation, READING, success } from '../openapi/operation.ts'
import { CLEARED_COOKIE_HEADER, CSRF_TOKEN_HEADER, ID, NO_DATA } from '../openapi/schemas.ts'
import { clearSessionCookie } from '../request/cookies.ts'
import { sendCsrfToken } from '../request/csrf.ts'
import { refuse } from '../request/log.ts'
import { reportEnded } from './ended-session.ts'
import { type SessionAccess, sendDenied, withSession } from './session-access.ts'

export const SESSION_OPERATION = operation(
  {
    operationId: 'getSession',
    tags: ['Sessions'],
    summary: 'Get the user and the session of this request',
    description:
      'Use it to ask whether a session is still live: an access token is valid for an hour, also after a logout.',
    security: READING,
    response: success(
      'The session is live.',
      object({ user: { $ref: 'User#' }, session: { $ref: 'Session#' } }, ['user', 'session']),
      CSRF_TOKEN_HEADER,
    ),
  },
  ['INVALID_TOKEN'],
)

export function sessionRoute(deps: SessionAccess) {
  return withSession(deps, async ({ session, user, lastLogin }, _request, reply, cookie) => {
    if (cookie !== null) sendCsrfToken(reply, cookie)
    return sendSuccess(reply, {
      user: toUserObject(user),
      session: {
        ...toSessionObject(session, session.id),
        lastLogin: lastLogin && { ...lastLogin, at: lastLogin.at.toISOString() },
      },
    })
  })
}

const PAGE_MAX = 100

export const SESSIONS_OPERATION = {
  ...operation(
    {
      operationId: 'listSessions',
      tags: ['Sessions'],
      summary: 'List your live sessions',
      description:
        'In the order of their logins. If there are more, send `next` as `after` to get the next page.',
      security: READING,
      querystring: object(
        {
          limit: {
            type: 'string',
            // Without sign or leading zeros.
            pattern: '^([1-9]\\d?|100)$',
            description: `How many sessions: 1 to ${PAGE_MAX}; by default ${PAGE_MAX}.`,
            examples: ['20'],
          },
          after: {
            type: 'string',
            pattern: UUID_PATTERN,
            description: 'The id of the last session of the previous page.',
            examples: ['7c9e6679-7425-40de-944b-e07fc1f90ae7'],
          },
        },
        [],
      ),
      response: success(
        'A page of the list.',
        object(
          {
            sessions: { type: 'array', items: { $ref: 'Session#' } },
            next: {
              ...ID,
              description: 'Only if there are more sessions.',
              examples: ['7c9e6679-7425-40de-944b-e07fc1f90ae7'],
            },
          },
          ['sessions'],
        ),
      ),
    },
    ['INVALID_TOKEN'],
  ),
  attachValidation: true,
}

export function sessionsRoute(deps: SessionAccess) {
  return withSession(deps, async ({ session: current, user }, request, reply) => {
    const [problem] = request.validationError?.validation ?? []
    if (problem) {
      return refuse(request, reply, 'BAD_REQUEST', { fields: [problem.instancePath.slice(1)] })
    }
    const { limit, after } = request.query as { limit?: string; after?: string }
    const size = Number(limit ?? PAGE_MAX)
    // One more row than asked for shows whether there is a next page.
    const page = { afterId: after?.toLowerCase() ?? null, limit: size + 1 }
    const found = await deps.store.sessions.listLive(user.id, page, deps.clock())
    if (found === null) return refuse(request, reply, 'BAD_REQUEST', { fields: ['after'] })
    const sessions = found.slice(0, size)
    return sendSuccess(reply, {
      sessions: sessions.map(session => toSessionObject(session, current.id)),
      ...(found.length > size && { next: sessions.at(-1)?.id }),
    })
  })
}

export const END_SESSION_OPERATION = {
  ...operation(
    {
      operationId: 'endSession',
      tags: ['Sessions'],
      summary: 'End one of your sessions',
      description: 'A session of another user is answered like one that does not exist.',
      security: CHANGING,
      params: object(
        {
          id: {
            type: 'string',
            pattern: UUID_PATTERN,
            description: 'The id of the session.',
            examples: ['7c9e6679-7425-40de-944b-e07fc1f90ae7'],
          },
        },
        ['id'],
      ),
      response: success('The session has ended.', NO_DATA, CLEARED_COOKIE_HEADER),
    },
    ['INVALID_TOKEN', 'CSRF_FAILED', 'NOT_FOUND'],
  ),
  attachValidation: true,
}

/** A session of another user is answered like one that does not exist. */
export function endSessionRoute(deps: SessionAccess) {
  return withSession(deps, async ({ session: current, user }, request, reply, cookie) => {
    if (request.validationError) return sendFailure(reply, 'NOT_FOUND')
    const id = (request.params as { id: string }).id.toLowerCase()
    const key = { kind: 'access-token' as const, sessionId: id, userId: user.id }
    const ended = await deps.store.sessions.endOf(key, deps.clock())
    if (!ended) return sendFailure(reply, 'NOT_FOUND')
    reportEnded(request, id, user.id, 'user')
    if (id === current.id && cookie !== null) clearSessionCookie(reply)
    return sendSuccess(reply, {})
  })
}

export const END_OTHER_SESSIONS_OPERATION = operation(
  {
    operationId: 'endOtherSessions',
    tags: ['Sessions'],
    summary: 'End all your other sessions',
    description: 'The session of this request stays.',
    security: CHANGING,
    response: success('All other sessions have ended.', NO_DATA),
  },
  ['INVALID_TOKEN', 'CSRF_FAILED'],
)

export function endOtherSessionsRoute(deps: SessionAccess) {
  return withSession(deps, async ({ session: current, user }, request, reply, cookie) => {
    const ended = await deps.store.sessions.endOthers(user.id, current.id, deps.clock())
    if (ended === null) {
      // Another request has ended this session in the meantime.
      const credential = cookie === null ? 'access-token' : 'cookie'
      return sendDenied(request, reply, { kind: 'denied', credential, reason: 'session-ended' })
    }
    for (const id of ended) reportEnded(request, id, user.id, 'user')
    return sendSuccess(reply, {})
  })
}

function toSessionObject(session: Session, currentId: string) {
  const { id, createdAt, lastUsedAt, expiresAt, userAgent, ip } = session
  return {
    id,
    createdAt: createdAt.toISOString(),
    lastUsedAt: lastUsedAt.toISOString(),
    expiresAt: expiresAt.toISOString(),
    userAgent,
    ip,
    current: id === currentId,
  }
}
