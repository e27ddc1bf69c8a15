// What makes a session live, and the one way to find it.
import { type RawBuilder, type Selectable, sql } from 'kysely'
import type { FoundSession, Invalid, Session } from '../../domain/session.ts'
import type { Engine } from './engine.ts'
import type { Schema } from './schema.ts'
import { isNotLockedByAdministrator } from './throttle-rows.ts'
import { toUser } from './user-rows.ts'
import { toText, toTime, toTimeOrNull } from './values.ts'

/**
 * The one definition. An expression for the user lets an index find the sessions of one.
 * For a single row it asks for "at least": a statement of PostgreSQL that waited for the row sees the row as
 * it is now, but the user as it was at the statement's start, one generation behind.
 */
export function isLive(now: string, userId: RawBuilder<unknown> | null = null) {
  const isCurrent = userId
    ? sql`= ${generationOf(userId)}`
    : sql`>= ${generationOf(sql.ref('sessions.user_id'))}`
  return sql<boolean>`(sessions.ended_at is null and sessions.generation ${isCurrent}
    and ${isNotExpired(now)})`
}

export function isNotExpired(now: string) {
  return sql<boolean>`sessions.idle_expires_at > ${now} and sessions.expires_at > ${now}`
}

/** What the sessions of a user must have to be live. */
export function generationOf(userId: RawBuilder<unknown>) {
  return sql<number>`(select session_generation from users where users.id = ${userId})`
}

export async function findLive(
  { db, retrying }: Engine,
  column: 'id' | 'cookie_digest',
  value: string,
  now: Date,
): Promise<FoundSession> {
  const { session, user } = await retrying(async () => {
    const session = await db
      .selectFrom('sessions')
      .selectAll()
      .select(isLive(toText(now)).as('is_live'))
      .where(column, '=', value)
      .executeTakeFirst()
    const user =
      session?.is_live &&
      (await db
        .selectFrom('users')
        .selectAll()
        .select(isNotLockedByAdministrator(toText(now)).as('is_not_locked'))
        .where('id', '=', session.user_id)
        .executeTakeFirst())
    return { session, user }
  })
  if (!session) return invalid('unknown-session')
  // Deleting a user deletes the sessions: this one was read a moment before.
  if (!user) return invalid(isExpired(session, now) ? 'session-expired' : 'session-ended')
  if (!user.is_active) return invalid('user-inactive')
  if (!user.is_not_locked) return invalid('user-locked')
  return {
    kind: 'live',
    session: toSession(session),
    user: toUser(user),
    cookieUsedAt: toTimeOrNull(session.cookie_used_at),
  }
}

function isExpired(session: Selectable<Schema['sessions']>, now: Date): boolean {
  const ends = [session.idle_expires_at, session.expires_at].map(toTime)
  return session.ended_at === null && ends.some(end => end <= now)
}

function invalid<Reason extends string>(reason: Reason): Invalid<Reason> {
  return { kind: 'invalid', reason }
}

export function toSession(row: Selectable<Schema['sessions']>): Session {
  return {
    id: row.id,
    userId: row.user_id,
    createdAt: toTime(row.created_at),
    lastUsedAt: toTime(row.last_used_at),
    expiresAt: toTime(row.expires_at),
    userAgent: row.user_agent,
    ip: row.ip,
  }
}
