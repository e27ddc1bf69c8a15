// GET /session, GET /sessions: a user's own sessions.
import type { Factor } from '../../domain/second-factor.ts'
import type { Session } from '../../domain/session.ts'
import { listOwnFactors, listOwnSessions } from '../../session/own-sessions.ts'
import { sendSuccess, toUserObject } from '../answer/envelope.ts'
import { named, object, operation, orNull, READING, success, whole } from '../openapi/operation.ts'
import {
  CSRF_TOKEN_HEADER,
  ID,
  LAST_LOGIN_FIELDS,
  SESSION_FIELDS,
  SESSION_ID,
  TIME,
  USER,
} from '../openapi/schemas.ts'
import { sendCsrfToken } from '../request/csrf.ts'
import { refuse } from '../request/log.ts'
import { type SessionAccess, withSession } from './session-access.ts'

const OWN_SESSION_FIELDS = {
  ...SESSION_FIELDS,
  current: { type: 'boolean', description: 'True for the session of this request.' },
}

/** A second factor, as its user sees it. */
export const FACTOR_FIELDS = {
  id: ID,
  kind: { type: 'string', enum: ['totp', 'passkey'] },
  name: { type: ['string', 'null'], examples: ['Work laptop'] },
  credentialId: { type: ['string', 'null'], description: 'Of a passkey; null of an app.' },
  createdAt: TIME,
  lastUsedAt: orNull(TIME),
} satisfies Record<keyof Factor, object>

const LAST_LOGIN = orNull(
  whole(LAST_LOGIN_FIELDS),
  'The user’s login before the one that opened the session. Later logins do not change it. Null if none is known.',
)

const CURRENT_SESSION = whole({
  ...OWN_SESSION_FIELDS,
  lastLogin: named('LastLogin', LAST_LOGIN),
})

export const SESSION_OPERATION = operation({
  operationId: 'getSession',
  tags: ['Sessions'],
  summary: 'Get the user and the session of this request',
  description:
    'Use it to ask whether a session is still live: an access token is valid for an hour, also after a logout. `/.well-known/ended-sessions` answers the same question for many tokens, a second later.',
  security: READING,
  response: success(
    'The session is live.',
    named(
      'UserAndSession',
      whole({
        user: USER,
        session: named('CurrentSession', CURRENT_SESSION),
        factors: { type: 'array', items: named('Factor', whole(FACTOR_FIELDS)) },
        recoveryCodesLeft: { type: 'integer', examples: [10] },
      }),
    ),
    CSRF_TOKEN_HEADER,
  ),
  failures: ['INVALID_TOKEN', 'TOO_MANY_REQUESTS'],
})

export function sessionRoute(deps: SessionAccess) {
  return withSession(deps, async (live, _request, reply, cookie) => {
    const { session, user, lastLogin } = live
    if (cookie !== null) sendCsrfToken(reply, cookie)
    return sendSuccess(reply, {
      user: toUserObject(user),
      session: { ...toSessionObject(session, session.id), lastLogin },
      ...(await listOwnFactors(deps, live)),
    })
  })
}

const PAGE_MAX = 100

export const SESSIONS_OPERATION = operation({
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
        // It has no sign and no leading zeros.
        pattern: '^([1-9]\\d?|100)$',
        description: `How many sessions: 1 to ${PAGE_MAX}; by default ${PAGE_MAX}.`,
        examples: ['20'],
      },
      after: { ...SESSION_ID, description: 'The id of the last session of the previous page.' },
    },
    [],
  ),
  response: success(
    'A page of the list.',
    named(
      'SessionPage',
      object(
        {
          sessions: { type: 'array', items: named('Session', whole(OWN_SESSION_FIELDS)) },
          next: { ...SESSION_FIELDS.id, description: 'Only if there are more sessions.' },
        },
        ['sessions'],
      ),
    ),
  ),
  failures: ['INVALID_TOKEN', 'TOO_MANY_REQUESTS'],
  options: { attachValidation: true },
})

export function sessionsRoute(deps: SessionAccess) {
  return withSession(deps, async (live, request, reply) => {
    const [problem] = request.validationError?.validation ?? []
    if (problem) {
      return refuse(request, reply, 'BAD_REQUEST', { fields: [problem.instancePath.slice(1)] })
    }
    const { limit, after } = request.query as { limit?: string; after?: string }
    const page = { afterId: after?.toLowerCase() ?? null, limit: Number(limit ?? PAGE_MAX) }
    const listed = await listOwnSessions(deps, live, page)
    if (listed === null) return refuse(request, reply, 'BAD_REQUEST', { fields: ['after'] })
    const { sessions, next } = listed
    return sendSuccess(reply, {
      sessions: sessions.map(session => toSessionObject(session, live.session.id)),
      ...(next && { next }),
    })
  })
}

function toSessionObject(session: Session, currentId: string) {
  const { id, createdAt, lastUsedAt, expiresAt, userAgent, ip, amr } = session
  const shown = { id, createdAt, lastUsedAt, expiresAt, userAgent, ip, amr }
  return { ...shown, current: id === currentId }
}
