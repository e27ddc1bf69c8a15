// The definition of a live session, and the lookup of one.
import { type RawBuilder, type Selectable, sql } from 'kysely'
import type { FoundSession, Invalid, Session } from '../../domain/session.ts'
import type { Engine } from './engine.ts'
import { formatTime, parseTime, parseTimeOrNull, type Schema } from './schema.ts'
import { isNotLockedByAdministrator } from './throttle-rows.ts'
import { toUser } from './user-rows.ts'

/**
 * True for live sessions. With `userId`, an index on user and generation finds all sessions of that user.
 *
 * Without it, one row is compared by ">=". A PostgreSQL statement that waited for the lock of a session sees
 * the session as it is now, but the user as it was before the wait, perhaps with an older generation.
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

/** The generation that live sessions of this user have. */
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
      .select(isLive(formatTime(now)).as('is_live'))
      .where(column, '=', value)
      .executeTakeFirst()
    const user =
      session?.is_live &&
      (await db
        .selectFrom('users')
        .selectAll()
        .select(isNotLockedByAdministrator(formatTime(now)).as('is_not_locked'))
        .where('id', '=', session.user_id)
        .executeTakeFirst())
    return { session, user }
  })
  if (!session) return invalid('unknown-session')
  // Without a user if the session is not live, or if the user was deleted between the two reads.
  if (!user) return invalid(isExpired(session, now) ? 'session-expired' : 'session-ended')
  if (!user.is_active) return invalid('user-inactive')
  if (!user.is_not_locked) return invalid('user-locked')
  return {
    kind: 'live',
    session: toSession(session),
    user: toUser(user),
    cookieUsedAt: parseTimeOrNull(session.cookie_used_at),
  }
}

function isExpired(session: Selectable<Schema['sessions']>, now: Date): boolean {
  const ends = [session.idle_expires_at, session.expires_at].map(parseTime)
  return session.ended_at === null && ends.some(end => end <= now)
}

function invalid<Reason extends string>(reason: Reason): Invalid<Reason> {
  return { kind: 'invalid', reason }
}

export function toSession(row: Selectable<Schema['sessions']>): Session {
  return {
    id: row.id,
    userId: row.user_id,
    createdAt: parseTime(row.created_at),
    lastUsedAt: parseTime(row.last_used_at),
    expiresAt: parseTime(row.expires_at),
    userAgent: row.user_agent,
    ip: row.ip,
  }
}
