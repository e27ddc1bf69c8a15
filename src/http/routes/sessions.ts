// GET /session, GET /sessions, DELETE /sessions/{id}, DELETE /sessions: a user's own sessions.
import type { Session } from '../../domain/session.ts'
import { isUuid } from '../../identifiers.ts'
import { sendFailure, sendSuccess, toUserObject } from '../answer/envelope.ts'
import { clearSessionCookie } from '../request/cookies.ts'
import { sendCsrfToken } from '../request/csrf.ts'
import { reportEnded } from './ended-session.ts'
import { type SessionAccess, withSession } from './session-access.ts'

export function sessionRoute(deps: SessionAccess) {
  return withSession(deps, async ({ session, user }, _request, reply, cookie) => {
    if (cookie !== null) sendCsrfToken(reply, cookie)
    return sendSuccess(reply, {
      user: toUserObject(user),
      session: toSessionObject(session, session.id),
    })
  })
}

export function sessionsRoute(deps: SessionAccess) {
  return withSession(deps, async ({ session: current, user }, request, reply) => {
    const { limit, after } = request.query as Record<string, unknown>
    const size = limit === undefined ? PAGE_MAX : sizeOf(limit)
    if (size === null) return sendFailure(reply, 'BAD_REQUEST', { fields: ['limit'] })
    if (after !== undefined && !isUuid(after)) {
      return sendFailure(reply, 'BAD_REQUEST', { fields: ['after'] })
    }
    // One more row than asked for shows whether there is a next page.
    const page = { afterId: after?.toLowerCase() ?? null, limit: size + 1 }
    const found = await deps.store.listLiveSessions(user.id, page, deps.clock())
    if (found === null) return sendFailure(reply, 'BAD_REQUEST', { fields: ['after'] })
    const sessions = found.slice(0, size)
    return sendSuccess(reply, {
      sessions: sessions.map(session => toSessionObject(session, current.id)),
      ...(found.length > size && { next: sessions.at(-1)?.id }),
    })
  })
}

const PAGE_MAX = 100

/** Null unless it is a whole number from 1 to 100, without sign or leading zeros. */
function sizeOf(limit: unknown): number | null {
  return typeof limit === 'string' && /^([1-9]\d?|100)$/.test(limit) ? Number(limit) : null
}

/** A session of another user is answered like one that does not exist. */
export function endSessionRoute(deps: SessionAccess) {
  return withSession(deps, async ({ session: current, user }, request, reply, cookie) => {
    const { id: named } = request.params as { id: string }
    if (!isUuid(named)) return sendFailure(reply, 'NOT_FOUND')
    const id = named.toLowerCase()
    const key = { kind: 'access-token' as const, sessionId: id, userId: user.id }
    if (!(await deps.store.endSessionOf(key, deps.clock()))) return sendFailure(reply, 'NOT_FOUND')
    reportEnded(request, id, user.id, 'user')
    if (id === current.id && cookie !== null) clearSessionCookie(reply)
    return sendSuccess(reply, {})
  })
}

export function endOtherSessionsRoute(deps: SessionAccess) {
  return withSession(deps, async ({ session: current, user }, request, reply) => {
    const isLive = await deps.store.endSessions(user.id, current.id, deps.clock(), ids => {
      for (const id of ids) reportEnded(request, id, user.id, 'user')
    })
    // False if another request has ended this session in the meantime.
    return isLive ? sendSuccess(reply, {}) : sendFailure(reply, 'INVALID_TOKEN')
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
