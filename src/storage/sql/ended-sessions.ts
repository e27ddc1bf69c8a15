// The sessions that were ended, for services that verify access tokens. Most are still rows of `sessions`.
import { sql, type Transaction } from 'kysely'
import { ENDED_LISTED_SECONDS } from '../../domain/lifetimes.ts'
import type { SessionEnd, SessionStore } from '../../domain/session.ts'
import type { Engine } from './engine.ts'
import { isFrom } from './purge.ts'
import { formatTime, parseTime, type Schema } from './schema.ts'

/** Each is found by an index of its own. */
const PLACES = [
  sql`sessions where ended_at is not null and has_tokens`,
  sql`sessions where ended_at is not null and not has_tokens`,
  sql`ended_sessions where ended_at is not null`,
]

export async function hasMoreEnded(
  engine: Engine,
  known: number,
  from: Date,
  before: Date,
): Promise<boolean> {
  const range = sql`ended_at >= ${formatTime(from)} and ended_at < ${formatTime(before)}`
  const parts = PLACES.map(place => sql`select 1 from ${place} and ${range}`)
  const { rows } = await engine.retrying(() =>
    sql`select 1 from (${sql.join(parts, sql` union all `)}) ended limit 1 offset ${known}`.execute(
      engine.db,
    ),
  )
  return rows.length > 0
}

export async function listEnded(
  engine: Engine,
  { endedAt, id }: Parameters<SessionStore['listEnded']>[0],
  limit: number,
): Promise<SessionEnd[]> {
  const from = { at: formatTime(endedAt), ...(id !== undefined && { id }) }
  const parts = PLACES.map(
    (place, i) => sql`select * from (
      select id, ended_at from ${place} and ${isFrom('ended_at', 'id', from)}
      order by ended_at, id limit ${sql.lit(limit)}
    ) ${sql.ref(`part${i}`)}`,
  )
  const { rows } = await engine.retrying(() =>
    sql<{ id: string; ended_at: Date | string }>`${sql.join(parts, sql` union all `)}
      order by ended_at, id limit ${sql.lit(limit)}`.execute(engine.db),
  )
  return rows.map(row => ({ id: row.id, endedAt: parseTime(row.ended_at) }))
}

/** Keeps the ends of sessions whose rows are removed in this transaction. A batch may be removed in several steps. */
export async function keepEnded(trx: Transaction<Schema>, ids: string[], now: Date): Promise<void> {
  if (ids.length === 0) return
  await sql`insert into ended_sessions (id, ended_at) select id, ended_at from sessions
    where id in (${sql.join(ids)}) and ended_at > ${formatTime(now, -ENDED_LISTED_SECONDS * 1000)}
    on conflict do nothing`.execute(trx)
}
