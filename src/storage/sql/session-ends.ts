// All sessions of a user, ended at once however many there are: the user's generation moves on, which
// kills them in one step. Their rows follow in batches, so that no statement takes long and a process
// that is killed in between leaves nothing alive.

import { setImmediate } from 'node:timers/promises'
import { sql } from 'kysely'
import type { OnEnded } from '../../domain/user.ts'
import type { Engine } from './engine.ts'
import { generationOf, isNotExpired } from './live-session.ts'
import { isAmong } from './session-removal.ts'
import { transact, write } from './transact.ts'
import { toText } from './values.ts'

/** Few enough that SQLite is done within some milliseconds. */
const ROWS_AT_A_TIME = { sqlite: 100, postgres: 500 }

/** Set with any change that ends the user's sessions. */
export const NEXT_GENERATION = sql<number>`session_generation + 1`

export async function endSessions(
  engine: Engine,
  userId: string,
  keptId: string | null,
  now: Date,
  onEnded?: OnEnded,
): Promise<boolean> {
  const moment = toText(now)
  const isMoved = await transact(engine, async trx => {
    // Locked first, so that the update sees the kept session as another call has left it.
    if (engine.name === 'postgres' && keptId !== null) {
      await trx.selectFrom('users').select('id').where('id', '=', userId).forNoKeyUpdate().execute()
    }
    const user = await trx
      .updateTable('users')
      .set({ session_generation: NEXT_GENERATION })
      .where('id', '=', userId)
      .$if(keptId !== null, query =>
        query.where(
          // Of two calls that keep different sessions, the second fails.
          sql<boolean>`exists (select 1 from sessions where id = ${keptId} and user_id = users.id
            and ended_at is null and generation = users.session_generation and ${isNotExpired(moment)})`,
        ),
      )
      .returning('session_generation')
      .executeTakeFirst()
    if (user && keptId !== null) {
      await trx
        .updateTable('sessions')
        .set({ generation: user.session_generation })
        .where('id', '=', keptId)
        .execute()
    }
    return user !== undefined
  })
  if (isMoved) await markEnded(engine, userId, now, onEnded)
  return isMoved
}

/** Marks the sessions of earlier generations as ended. They are dead already. */
export async function markEnded(
  engine: Engine,
  userId: string,
  now: Date,
  onEnded?: OnEnded,
): Promise<void> {
  const moment = toText(now)
  const limit = ROWS_AT_A_TIME[engine.name]
  for (;;) {
    const ended = await write(engine, db =>
      db
        .updateTable('sessions')
        .set({ ended_at: moment })
        .where(
          isAmong(
            engine.name,
            'id',
            db
              .selectFrom('sessions')
              .select('id')
              .where('user_id', '=', userId)
              .where('ended_at', 'is', null)
              .where('generation', '<', generationOf(sql`${userId}`))
              .orderBy('generation')
              .orderBy('created_at')
              .orderBy('id')
              .limit(sql.lit(limit))
              .$if(engine.name === 'postgres', query => query.forNoKeyUpdate()),
          ),
        )
        .returning(['id', sql`${isNotExpired(moment)}`.as('was_live')])
        .execute(),
    )
    onEnded?.(ended.filter(({ was_live }) => was_live).map(({ id }) => id))
    if (ended.length < limit) return
    // Others have their turn: SQLite's statements hold the event loop.
    await setImmediate()
  }
}
