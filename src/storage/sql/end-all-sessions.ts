// Ends all sessions of users in one statement, in the transaction of the change that requires it. A user has at most
// 1,000 live sessions (MAX_SESSIONS_PER_USER). The sessions of all users together are ended in batches.
import { setImmediate } from 'node:timers/promises'
import { type Kysely, type RawBuilder, sql } from 'kysely'
import type { Change } from '../../domain/audit.ts'
import { writeAudit } from './audit.ts'
import { isAmong } from './dialect.ts'
import { type Engine, transact } from './engine.ts'
import { isNotExpired } from './live-session.ts'
import { formatTime, type Schema } from './schema.ts'

/**
 * The transaction must have locked the users, as a login does: so it sees the sessions of all earlier logins, and
 * later logins see the change. Returns the ids of the sessions that were live. Expired sessions are ended too, so that
 * no clock that is set back revives them.
 */
export async function endAllSessions(
  engine: Engine,
  trx: Kysely<Schema>,
  which: RawBuilder<boolean>,
  now: Date,
): Promise<string[]> {
  const moment = formatTime(now)
  const ended = await trx
    .updateTable('sessions')
    .set({ ended_at: moment })
    .where(
      isAmong(
        engine.name,
        'id',
        trx
          .selectFrom('sessions')
          .select('id')
          .where(which)
          .where('ended_at', 'is', null)
          // In the same order as every other statement, so that no deadlock occurs.
          .orderBy('created_at')
          .orderBy('id')
          .$if(engine.name === 'postgres', query => query.forNoKeyUpdate()),
      ),
    )
    .returning(['id', sql`${isNotExpired(moment)}`.as('was_live')])
    .execute()
  return ended.filter(({ was_live }) => was_live).map(({ id }) => id)
}

export function isOfUser(userId: string) {
  return sql<boolean>`user_id = ${userId}`
}

/** On SQLite other operations wait for each batch. */
const BATCH = { sqlite: 100, postgres: 1_000 }
/** What the audit calls all users. */
const EVERY_USER = 'all users'

/**
 * Each session is met once: the batches follow the index of the purge, whose values only ever grow. A position in it
 * keeps PostgreSQL from reading the entries of the batches before, which stay in the index until a vacuum.
 */
export async function endEverySession(engine: Engine, change: Change): Promise<number> {
  let ended = 0
  let last: { id: string; purge_at: string } | undefined
  do {
    const from = last
    const batch = await transact(engine, async trx => {
      if (!from) {
        const event = { action: 'sessions.ended', target: EVERY_USER, targetId: null } as const
        await writeAudit(trx, change, event)
      }
      const after = from ? sql`and (purge_at, id) > (${from.purge_at}, ${from.id})` : sql``
      // As text: a Date would round PostgreSQL's microseconds.
      const { rows } = await sql<{ id: string; purge_at: string }>`
        select id, cast(purge_at as text) as purge_at from sessions
        where ended_at is null and purge_at is not null ${after}
        order by sessions.purge_at, id limit ${sql.lit(BATCH[engine.name])}`.execute(trx)
      if (rows.length === 0) return { ended: 0, last: undefined }
      const isInBatch = sql<boolean>`id in (${sql.join(rows.map(({ id }) => id))})`
      const live = await endAllSessions(engine, trx, isInBatch, change.at)
      return { ended: live.length, last: rows.at(-1) }
    })
    ended += batch.ended
    last = batch.last
    await setImmediate()
  } while (last)
  return ended
}
