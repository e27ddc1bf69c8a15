// Ends all sessions of users in one statement, in the transaction of the change that requires it. A user has at most
// 1,000 live sessions (MAX_SESSIONS_PER_USER). The sessions of all users together are ended in batches.
import { setImmediate } from 'node:timers/promises'
import { type Kysely, type RawBuilder, sql } from 'kysely'
import type { Change } from '../../domain/audit.ts'
import { writeAudit } from './audit.ts'
import { isAmong, locking } from './dialect.ts'
import { type Engine, type EngineName, ROWS_AT_A_TIME, transact } from './engine.ts'
import { isNotExpired } from './live-session.ts'
import { formatTime, type Schema } from './schema.ts'

export type EndedRow = { id: string; was_live: boolean | number }

/**
 * The transaction must have locked the users, as a login does: so it sees the sessions of all earlier logins, and
 * later logins see the change. Expired sessions are ended too, so that no clock that is set back revives them. Rows are
 * locked in the same order as by every other statement, so that no deadlock occurs.
 */
export function endingAll(engine: EngineName, which: RawBuilder<boolean>, now: string) {
  const chosen = sql`select id from sessions where ${which} and ended_at is null
    order by created_at, id ${locking(engine, 'no key update')}`
  return sql<EndedRow>`update sessions set ended_at = ${now} where ${isAmong(engine, 'id', chosen)}
    returning id, ${isNotExpired(now)} as was_live`
}

/** Leaves out the sessions that had expired. */
export function liveIds(ended: EndedRow[]): string[] {
  return ended.filter(({ was_live }) => was_live).map(({ id }) => id)
}

/** Returns the ids of the sessions that were live. */
export async function endAllSessions(
  engine: Engine,
  trx: Kysely<Schema>,
  which: RawBuilder<boolean>,
  now: Date,
): Promise<string[]> {
  const { rows } = await endingAll(engine.name, which, formatTime(now)).execute(trx)
  return liveIds(rows)
}

export function isOfUser(userId: string) {
  return sql<boolean>`user_id = ${userId}`
}

export function isOtherOf(userId: string, keptId: string) {
  return sql<boolean>`user_id = ${userId} and id <> ${keptId}`
}

/**
 * Each session is met once: the batches follow an index of the live sessions. Each batch has its own time: the feed of
 * ended sessions does not look for ends that become visible long after their time.
 */
export async function endEverySession(engine: Engine, change: Change): Promise<number> {
  const event = { action: 'sessions.ended', target: 'all users', targetId: null } as const
  await transact(engine, trx => writeAudit(trx, change, event))
  const startMs = change.at.getTime() - performance.now()
  let ended = 0
  for (let from: string | null = LOWEST_ID; from !== null; await setImmediate()) {
    const batch = await endBatch(engine, from, new Date(startMs + performance.now()))
    ended += batch.ended
    from = batch.next
  }
  return ended
}

function endBatch(engine: Engine, from: string, now: Date) {
  return transact(engine, async trx => {
    const { rows } = await sql<{ id: string; user_id: string }>`select id, user_id from sessions
      where ended_at is null and user_id >= ${from}
      order by user_id limit ${sql.lit(ROWS_AT_A_TIME[engine.name])}`.execute(trx)
    if (rows.length === 0) return { ended: 0, next: null }
    const isInBatch = sql<boolean>`id in (${sql.join(rows.map(row => row.id))})`
    const live = await endAllSessions(engine, trx, isInBatch, now)
    return { ended: live.length, next: rows.at(-1)?.user_id ?? null }
  })
}

export const LOWEST_ID = '00000000-0000-0000-0000-000000000000'
