// Rows of users: how a login finds one, and how it becomes a `User`.
import { type Selectable, sql } from 'kysely'
import type { Change } from '../../domain/audit.ts'
import type { User } from '../../domain/user.ts'
import { parseTime, parseTimeOrNull, type Schema } from './schema.ts'

export type FoundUser = Selectable<Schema['users']> & { position: number }

/** Falls back to a dummy row so that both lookups cost the same. */
export function selectUserOrDummy(email: string, dummyId: string) {
  return sql<FoundUser>`select * from (
    select 0 as position, users.* from users where email = ${email}
    union all select 1 as position, unknown_user.* from unknown_user where id = ${dummyId}
  ) found order by position limit 1`
}

/** Null for a dummy row; it is converted too, so that both cost the same. */
export function toFoundUser(row: FoundUser | null | undefined): User | null {
  if (!row) throw new Error('unknown_user has lost a row')
  const user = toUser(row)
  return row.position === 0 ? user : null
}

export function toUser(row: Selectable<Schema['users']>): User {
  return {
    id: row.id,
    email: row.email,
    passwordHash: row.password_hash,
    name: row.name,
    role: row.role,
    isActive: Boolean(row.is_active),
    failedLoginAttempts: row.failed_login_attempts,
    lockedUntil: parseTimeOrNull(row.locked_until),
    lockedBy: row.locked_by,
    createdAt: parseTime(row.created_at),
    updatedAt: parseTime(row.updated_at),
  }
}

/** The user that a change is for. */
export function isChanged(email: string, { userId }: Change) {
  const hasEmail = sql<boolean>`email = ${email}`
  return userId === undefined ? hasEmail : sql<boolean>`${hasEmail} and id = ${userId}`
}

/**
 * Ignores locks set by the throttle; a lock without `locked_by` counts as an administrator's. The same rule
 * as `isLockedByAdministrator` of `src/domain/user.ts`, in SQL.
 */
export function isNotLockedByAdministrator(now: string) {
  return sql<boolean>`(locked_until is null or locked_until <= ${now} or locked_by = 'throttle')`
}
