// Changes the email, name and role of a user.
import type { Change } from '../../domain/audit.ts'
import type { UserFields } from '../../domain/user.ts'
import { changedFacts, writeAudit } from './audit.ts'
import { type Engine, transact } from './engine.ts'
import { formatTime } from './schema.ts'
import { moveDeviceScopes } from './throttle-rows.ts'
import { isChanged, toUser } from './user-rows.ts'

class UnknownUser extends Error {}

export async function setUser(
  engine: Engine,
  email: string,
  fields: UserFields,
  change: Change,
): Promise<'changed' | 'unchanged' | 'unknown' | 'taken'> {
  try {
    return await transact(engine, async trx => {
      // The throttle's rows are locked before the user's, as logins do.
      const newEmail = fields.email === email ? undefined : fields.email
      if (newEmail !== undefined) await moveDeviceScopes(engine, trx, email, newEmail)
      const found = await trx
        .selectFrom('users')
        .selectAll()
        .where(isChanged(email, change))
        .$if(engine.name === 'postgres', query => query.forUpdate())
        .executeTakeFirst()
      // Thrown, so that the scopes stay where they are.
      if (!found) throw new UnknownUser()
      const before = toUser(found)
      // The block of the old email stays with it, and so the user need not wait.
      const isFreed = newEmail !== undefined && before.lockedBy === 'throttle'
      const lock = isFreed ? { lockedUntil: null, lockedBy: null } : {}
      const facts = changedFacts(before, { ...before, ...fields, ...lock })
      if (!facts) return 'unchanged'
      await trx
        .updateTable('users')
        .set({ ...fields, updated_at: formatTime(change.at) })
        .$if(isFreed, query => query.set({ locked_until: null, locked_by: null }))
        .where('id', '=', found.id)
        .execute()
      const event = { action: 'user.changed' as const, target: email, targetId: found.id }
      await writeAudit(trx, change, { ...event, ...facts })
      return 'changed'
    })
  } catch (error) {
    if (error instanceof UnknownUser) return 'unknown'
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
