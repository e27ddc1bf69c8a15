// Deletes a user with its sessions, refresh tokens and devices, in batches so that no statement takes long.
import { setImmediate } from 'node:timers/promises'
import { sql } from 'kysely'
import type { Change } from '../../domain/audit.ts'
import type { OnEnded } from '../../domain/user.ts'
import { writeAudit } from './audit.ts'
import { isAmong } from './dialect.ts'
import { NEXT_GENERATION } from './end-all-sessions.ts'
import { type Engine, transact, write } from './engine.ts'
import { chooseSessions, clearSessions } from './remove-sessions.ts'
import { isChanged } from './user-rows.ts'

const DEVICES_AT_A_TIME = 100

export async function deleteUser(
  engine: Engine,
  email: string,
  change: Change,
  onEnded?: OnEnded,
): Promise<boolean> {
  // From here on the user has no live session, and no login opens another.
  const user = await transact(engine, async trx => {
    const found = await trx
      .updateTable('users')
      .set({ is_active: 0, session_generation: NEXT_GENERATION })
      .where(isChanged(email, change))
      .returningAll()
      .executeTakeFirst()
    if (found) {
      const { name, role } = found
      await writeAudit(trx, change, {
        action: 'user.deleted',
        target: email,
        targetId: found.id,
        before: { name, role },
      })
    }
    return found
  })
  if (!user) return false
  // Sessions are deleted before the user: a rotation locks its session's row first, then the user's.
  for (;;) {
    const removed = await transact(engine, async trx => {
      const chosen = await chooseSessions(engine, trx, {
        condition: sql`user_id = ${user.id}`,
        orderBy: 'user_id',
        mustWait: true,
      })
      const ids = chosen.map(({ id }) => id)
      return ids.length === 0 ? null : (await clearSessions(engine, trx, ids, 'remove')).sessions
    })
    if (removed === null) break
    onEnded?.(removed.map(({ id }) => id))
    await setImmediate()
  }
  while ((await deleteDevices(engine, user.id)) === DEVICES_AT_A_TIME) await setImmediate()
  await write(engine, db => db.deleteFrom('users').where('id', '=', user.id).execute())
  return true
}

async function deleteDevices(engine: Engine, userId: string): Promise<number> {
  const { numDeletedRows } = await write(engine, db =>
    db
      .deleteFrom('devices')
      .where(
        isAmong(
          engine.name,
          'id',
          db
            .selectFrom('devices')
            .select('id')
            .where('user_id', '=', userId)
            .limit(sql.lit(DEVICES_AT_A_TIME)),
        ),
      )
      .executeTakeFirstOrThrow(),
  )
  return Number(numDeletedRows)
}
