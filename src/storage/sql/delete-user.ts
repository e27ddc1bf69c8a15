// Deletes a user with its sessions, refresh tokens and devices, in batches so that no statement takes long.
import { setImmediate } from 'node:timers/promises'
import { sql } from 'kysely'
import type { Change } from '../../domain/audit.ts'
import { writeAudit } from './audit.ts'
import { isAmong } from './dialect.ts'
import { endAllSessions, isOfUser } from './end-all-sessions.ts'
import { keepEnded } from './ended-sessions.ts'
import { type Engine, transact, write } from './engine.ts'
import { chooseSessions, clearSessions } from './remove-sessions.ts'

const DEVICES_AT_A_TIME = 100

export async function deleteUser(
  engine: Engine,
  id: string,
  change: Change,
): Promise<number | null> {
  // From here on the user has no live session, and no login opens another.
  const ended = await transact(engine, async trx => {
    const user = await trx
      .updateTable('users')
      .set({ is_active: 0 })
      .where('id', '=', id)
      .returning(['email', 'name', 'role'])
      .executeTakeFirst()
    if (!user) return null
    const { email, name, role } = user
    const event = { action: 'user.deleted' as const, target: email, targetId: id }
    await writeAudit(trx, change, { ...event, before: { name, role } })
    return endAllSessions(engine, trx, isOfUser(id), change.at)
  })
  if (!ended) return null
  // Sessions are deleted before the user: a rotation locks its session's row first, then the user's.
  for (;;) {
    const isDone = await transact(engine, async trx => {
      const chosen = await chooseSessions(engine, trx, {
        condition: isOfUser(id),
        orderBy: 'user_id',
        mustWait: true,
      })
      const ids = chosen.map(({ id }) => id)
      await keepEnded(trx, ids, change.at)
      await clearSessions(engine, trx, ids, 'remove')
      return ids.length === 0
    })
    if (isDone) break
    await setImmediate()
  }
  while ((await deleteDevices(engine, id)) === DEVICES_AT_A_TIME) await setImmediate()
  await write(engine, db => db.deleteFrom('users').where('id', '=', id).execute())
  return ended.length
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
