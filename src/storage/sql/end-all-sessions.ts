// Ends all sessions of a user at once, however many there are, by raising the user's generation. Their rows
// are marked as ended afterwards, in batches so that no statement takes long. A process that is killed in
// between leaves unmarked rows, but no live session.
import { setImmediate } from 'node:timers/promises'
import { sql } from 'kysely'
import type { OnEnded } from '../../domain/user.ts'
import { isAmong } from './dialect.ts'
import { type Engine, transact, write } from './engine.ts'
import { generationOf, isNotExpired } from './live-session.ts'
import { formatTime } from './schema.ts'

/** Small enough that a batch in SQLite takes a few milliseconds. */
const ROWS_AT_A_TIME = { sqlite: 100, postgres: 500 }

/** Written by every change of a user that ends all of its sessions. */
export const NEXT_GENERATION = sql<number>`session_generation + 1`

export async function endSessions(
  engine: Engine,
  userId: string,
  keptId: string | null,
  now: Date,
  onEnded?: OnEnded,
): Promise<boolean> {
  const moment = formatTime(now)
  const isRaised = await transact(engine, async trx => {
    // Locks the user first, so that the update sees the kept session after the changes of parallel calls.
    if (engine.name === 'postgres' && keptId !== null) {
      await trx.selectFrom('users').select('id').where('id', '=', userId).forNoKeyUpdate().execute()
    }
    const user = await trx
      .updateTable('users')
      .set({ session_generation: NEXT_GENERATION })
      .where('id', '=', userId)
      .$if(keptId !== null, query =>
        query.where(
          // Of two calls that keep different sessions, the second one fails.
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
  if (isRaised) await markEnded(engine, userId, now, onEnded)
  return isRaised
}

/** Marks sessions of earlier generations, which are no longer live, as ended. */
export async function markEnded(
  engine: Engine,
  userId: string,
  now: Date,
  onEnded?: OnEnded,
): Promise<void> {
  const moment = formatTime(now)
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
    // SQLite's statements block their thread: let other operations run between two batches.
    await setImmediate()
  }
}
