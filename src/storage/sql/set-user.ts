// Changes the email, name and role of a user.
import type { Change } from '../../domain/audit.ts'
import type { UserFields, UserStore } from '../../domain/user.ts'
import { changedFacts, writeAudit } from './audit.ts'
import { type Engine, transact } from './engine.ts'
import { lockForChange } from './lock-for-change.ts'
import { formatTime } from './schema.ts'

export async function setUser(
  engine: Engine,
  id: string,
  fields: UserFields,
  change: Change,
): ReturnType<UserStore['set']> {
  try {
    return await transact(engine, async trx => {
      const before = await lockForChange(engine, trx, id)
      if (!before) return 'unknown'
      const { email = before.email } = fields
      // The block of the old email stays with it, and so the user need not wait.
      const isFreed = email !== before.email && before.lockedBy === 'throttle'
      const lock = isFreed ? { lockedUntil: null, lockedBy: null } : {}
      const facts = changedFacts(before, { ...before, ...fields, ...lock })
      if (!facts) return 'unchanged'
      await trx
        .updateTable('users')
        .set({ ...fields, updated_at: formatTime(change.at) })
        .$if(isFreed, query => query.set({ locked_until: null, locked_by: null }))
        .where('id', '=', id)
        .execute()
      const event = { action: 'user.changed' as const, target: before.email, targetId: id }
      await writeAudit(trx, change, { ...event, ...facts })
      return 'changed'
    })
  } catch (error) {
    // Only the email must be unique. The database decides between parallel changes.
    if (isUniqueViolation(error)) return 'taken'
    throw error
  }
}

/** The codes of PostgreSQL (SQLSTATE) and of SQLite (SQLITE_CONSTRAINT_UNIQUE). */
function isUniqueViolation(error: unknown): boolean {
  const { code, errcode } = Object(error)
  return code === '23505' || errcode === 2067
}
