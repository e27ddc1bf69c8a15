// Deletes a user with its sessions, refresh tokens and devices, in batches so that no statement takes long.
import { setImmediate } from 'node:timers/promises'
import { sql } from 'kysely'
import type { Change } from '../../domain/audit.ts'
import { writeAudit } from './audit.ts'
import { isAmong } from './dialect.ts'
import { endAllSessions, isOfUser } from './end-all-sessions.ts'
import { type Engine, transact, write } from './engine.ts'
import { chooseSessions, clearSessions } from './remove-sessions.ts'
import { isChanged } from './user-rows.ts'

const DEVICES_AT_A_TIME = 100

export async function deleteUser(
  engine: Engine,
  email: string,
  change: Change,
): Promise<number | null> {
  // From here on the user has no live session, and no login opens another.
  const deleted = await transact(engine, async trx => {
    const user = await trx
      .updateTable('users')
      .set({ is_active: 0 })
      .where(isChanged(email, change))
      .returning(['id', 'name', 'role'])
      .executeTakeFirst()
    if (!user) return null
    const { id, name, role } = user
    const ended = await endAllSessions(engine, trx, isOfUser(id), change.at)
    const event = { action: 'user.deleted' as const, target: email, targetId: id }
    await writeAudit(trx, change, { ...event, before: { name, role } })
    return { id, ended: ended.length }
  })
  if (!deleted) return null
  // Sessions are deleted before the user: a rotation locks its session's row first, then the user's.
  for (;;) {
    const isDone = await transact(engine, async trx => {
      const chosen = await chooseSessions(engine, trx, {
        condition: isOfUser(deleted.id),
        orderBy: 'user_id',
        mustWait: true,
      })
      const ids = chosen.map(({ id }) => id)
      await clearSessions(engine, trx, ids, 'remove')
      return ids.length === 0
    })
    if (isDone) break
    await setImmediate()
  }
  while ((await deleteDevices(engine, deleted.id)) === DEVICES_AT_A_TIME) await setImmediate()
  await write(engine, db => db.deleteFrom('users').where('id', '=', deleted.id).execute())
  return deleted.ended
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
