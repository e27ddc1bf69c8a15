// A stored user: how a login finds it, and the record that the service speaks in.
import { type Selectable, sql } from 'kysely'
import type { User } from '../../domain/user.ts'
import type { Schema } from './schema.ts'
import { toTime, toTimeOrNull } from './values.ts'

export type FoundUser = Selectable<Schema['users']> & { position: number }

/** Falls back to a dummy row, so that both lookups cost the same. */
export function selectUserOrDummy(email: string, dummyId: string) {
  return sql<FoundUser>`select * from (
    select 0 as position, users.* from users where email = ${email}
    union all select 1 as position, unknown_user.* from unknown_user where id = ${dummyId}
  ) found order by position limit 1`
}

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
    lockedUntil: toTimeOrNull(row.locked_until),
    lockedBy: row.locked_by,
    createdAt: toTime(row.created_at),
    updatedAt: toTime(row.updated_at),
  }
}
