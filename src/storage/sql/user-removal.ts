// Deletes a user with all that belongs to it, in batches: however much that is, no statement takes long.

import { setImmediate } from 'node:timers/promises'
import { sql } from 'kysely'
import type { OnEnded } from '../../domain/user.ts'
import type { Engine } from './engine.ts'
import { NEXT_GENERATION } from './session-ends.ts'
import { clearSessions, isAmong } from './session-removal.ts'
import { transact, write } from './transact.ts'

const DEVICES_AT_A_TIME = 100

export async function deleteUser(
  engine: Engine,
  email: string,
  onEnded?: OnEnded,
): Promise<boolean> {
  // From here on nothing of the user is alive, and no login adds to it.
  const user = await write(engine, db =>
    db
      .updateTable('users')
      .set({ is_active: 0, session_generation: NEXT_GENERATION })
      .where('email', '=', email)
      .returning('id')
      .executeTakeFirst(),
  )
  if (!user) return false
  // Sessions go before the user: a rotation holds its session while it asks for the user's row.
  for (;;) {
    const { sessions, chosen } = await transact(engine, trx =>
      clearSessions(engine, trx, {
        which: sql`user_id = ${user.id}`,
        orderBy: 'user_id',
        finish: 'remove',
        mustWait: true,
      }),
    )
    if (chosen.length === 0) break
    onEnded?.(sessions.map(({ id }) => id))
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
