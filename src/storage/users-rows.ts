// From a stored user to the record that the service speaks in.
import type { Selectable } from 'kysely'
import type { Schema } from './schema.ts'
import type { User } from './store.ts'
import { toTime, toTimeOrNull } from './values.ts'

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
