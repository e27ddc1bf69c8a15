// The definition of a live session, and the lookup of one together with its user.
import { type Selectable, sql } from 'kysely'
import { type FoundSession, invalid, type LastLogin, type Session } from '../../domain/session.ts'
import { prepare } from './prepared.ts'
import { type LastLoginColumns, parseTime, parseTimeOrNull, type Schema } from './schema.ts'
import { isNotLockedByAdministrator } from './user-rows.ts'

export function isLive(now: string) {
  return sql<boolean>`(sessions.ended_at is null and ${isNotExpired(now)})`
}

export function isNotExpired(now: string) {
  return sql<boolean>`sessions.idle_expires_at > ${now} and sessions.expires_at > ${now}`
}

/** A session and its user, read by one statement. */
export type SessionWithUser = SessionRow & UserColumns & Record<Condition, boolean | number>

export type UserColumns = {
  user_id: string
  email: string
  name: string
  role: string
  user_created_at: Date | string
  has_second_factor: boolean | number
}

type Condition = 'is_live' | 'is_active' | 'is_not_locked'

/** Leaves out the columns that only conditions use. */
type SessionRow = Omit<Selectable<Schema['sessions']>, 'cookie_digest' | 'device_id' | 'purge_at'>

/** The columns of `SessionWithUser`, from `sessions` joined with `users`. */
export function sessionWithUser(now: string) {
  return sql`sessions.id, sessions.user_id, sessions.created_at, sessions.last_used_at,
    sessions.idle_expires_at, sessions.expires_at, sessions.ended_at, sessions.cookie_used_at,
    sessions.user_agent, sessions.ip, sessions.amr, sessions.last_login_at, sessions.last_login_ip,
    sessions.last_login_user_agent, sessions.failures_since_login,
    sessions.failed_second_steps, ${isLive(now)} as is_live,
    users.email, users.name, users.role, users.created_at as user_created_at, users.is_active,
    ${isNotLockedByAdministrator(now)} as is_not_locked, ${HAS_SECOND_FACTOR}`
}

/** From `users`, with the alias that `UserColumns` has. */
export const HAS_SECOND_FACTOR = sql`exists (select 1 from second_factors
    where second_factors.user_id = users.id) as has_second_factor`

export const findById = prepareFind('id')
export const findByCookie = prepareFind('cookie_digest')

function prepareFind(column: 'id' | 'cookie_digest') {
  return prepare<{ value: string; now: string }, SessionWithUser>(
    ({ value, now }) => sql`select ${sessionWithUser(now)}
      from sessions join users on users.id = sessions.user_id
      where ${sql.ref(`sessions.${column}`)} = ${value}`,
  )
}

export function toLive(row: SessionWithUser, now: Date): FoundSession {
  if (!row.is_live) return invalid(isExpired(row, now) ? 'session-expired' : 'session-ended')
  if (!row.is_active) return invalid('user-inactive')
  if (!row.is_not_locked) return invalid('user-locked')
  return {
    kind: 'live',
    session: toSession(row),
    user: toSessionUser(row),
    cookieUsedAt: parseTimeOrNull(row.cookie_used_at),
    lastLogin: toLastLogin(row),
    hasSecondFactor: Boolean(row.has_second_factor),
  }
}

export function toSessionUser({ user_id: id, email, name, role, user_created_at }: UserColumns) {
  return { id, email, name, role, createdAt: parseTime(user_created_at) }
}

function isExpired(session: SessionWithUser, now: Date): boolean {
  const ends = [session.idle_expires_at, session.expires_at].map(parseTime)
  return session.ended_at === null && ends.some(end => end <= now)
}

/** Stored as the values of the claim, joined by spaces. */
export const toAmr = (stored: string) => stored.split(' ')

export function toSession(row: SessionRow): Session {
  return {
    id: row.id,
    userId: row.user_id,
    createdAt: parseTime(row.created_at),
    lastUsedAt: parseTime(row.last_used_at),
    expiresAt: parseTime(row.expires_at),
    userAgent: row.user_agent,
    ip: row.ip,
    amr: toAmr(row.amr),
  }
}

export function toLastLogin(row: Selectable<LastLoginColumns>): LastLogin | null {
  if (row.last_login_at === null) return null
  return {
    at: parseTime(row.last_login_at),
    userAgent: row.last_login_user_agent ?? '',
    ip: row.last_login_ip ?? '',
    failuresSince: row.failures_since_login,
    guessesSince: row.failed_second_steps,
  }
}
