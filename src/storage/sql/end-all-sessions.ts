// Ends all sessions of users in one statement, in the transaction of the change that requires it. A user has at most
// 1,000 live sessions (MAX_SESSIONS_PER_USER). The sessions of all users together are ended in batches.
import { setImmediate } from 'node:timers/promises'
import { type Kysely, type RawBuilder, sql } from 'kysely'
import type { Change } from '../../domain/audit.ts'
import { writeAudit } from './audit.ts'
import { isAmong } from './dialect.ts'
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
  const lock = engine === 'postgres' ? sql`for no key update` : sql``
  const chosen = sql`select id from sessions where ${which} and ended_at is null
    order by created_at, id ${lock}`
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

type Position = { id: string; purge_at: string }
/** Before all sessions. */
const FIRST: Position = {
  id: '00000000-0000-0000-0000-000000000000',
  purge_at: '1970-01-01T00:00:00.000Z',
}

/**
 * Each session is met once: the batches follow the index of the purge, whose values only ever grow. A position in it
 * keeps PostgreSQL from reading the entries of the batches before, which stay in the index until a vacuum. Each batch has
 * its own time: the feed of ended sessions does not look for ends that become visible long after their time.
 */
export async function endEverySession(engine: Engine, change: Change): Promise<number> {
  const startMs = performance.now()
  let ended = 0
  for (let after: Position | undefined = FIRST; after; await setImmediate()) {
    const passedMs = Math.floor(performance.now() - startMs)
    const batch = await endBatch(engine, change, after, passedMs)
    ended += batch.ended
    after = batch.last
  }
  return ended
}

function endBatch(
  engine: Engine,
  change: Change,
  after: Position,
  passedMs: number,
): Promise<{ ended: number; last: Position | undefined }> {
  const { id, purge_at } = after
  return transact(engine, async trx => {
    if (after === FIRST) {
      const event = { action: 'sessions.ended', target: 'all users', targetId: null } as const
      await writeAudit(trx, change, event)
    }
    // The time stays text: a Date would round PostgreSQL's microseconds. The first condition on purge_at lets the engines use the
    // index, which has no nulls; from the second they do not infer that there are none.
    const { rows } = await sql<Position>`
      select id, cast(purge_at as text) as purge_at from sessions
      where ended_at is null and purge_at >= ${purge_at} and (purge_at, id) > (${purge_at}, ${id})
      order by sessions.purge_at, id limit ${sql.lit(ROWS_AT_A_TIME[engine.name])}`.execute(trx)
    if (rows.length === 0) return { ended: 0, last: undefined }
    const isInBatch = sql<boolean>`id in (${sql.join(rows.map(row => row.id))})`
    const now = new Date(change.at.getTime() + passedMs)
    const live = await endAllSessions(engine, trx, isInBatch, now)
    return { ended: live.length, last: rows.at(-1) }
  })
}
