// The sessions that were ended, for services that verify access tokens. Most are still rows of `sessions`.
import { sql, type Transaction } from 'kysely'
import { ENDED_LISTED_SECONDS } from '../../domain/lifetimes.ts'
import type { SessionEnd, SessionStore } from '../../domain/session.ts'
import { rowsAsJson } from './dialect.ts'
import { LOWEST_ID } from './end-all-sessions.ts'
import type { Engine } from './engine.ts'
import { formatTime, parseTime, type Schema } from './schema.ts'

const TABLES = ['sessions', 'ended_sessions'] as const

export async function hasMoreEnded(
  engine: Engine,
  known: number,
  from: Date,
  before: Date,
): Promise<boolean> {
  const range = sql`ended_at >= ${formatTime(from)} and ended_at < ${formatTime(before)}`
  const parts = TABLES.map(
    table => sql`select 1 from ${sql.table(table)} where ended_at is not null and ${range}`,
  )
  const { rows } = await engine.retrying(() =>
    sql`select 1 from (${sql.join(parts, sql` union all `)}) ended limit 1 offset ${known}`.execute(
      engine.db,
    ),
  )
  return rows.length > 0
}

export async function listEnded(
  engine: Engine,
  { endedAt, id = LOWEST_ID }: Parameters<SessionStore['listEnded']>[0],
  limit: number,
): Promise<SessionEnd[]> {
  const page = sql`order by ended_at, id limit ${sql.lit(limit)}`
  const parts = TABLES.map(
    table => sql`select * from (
      select id, ended_at from ${sql.table(table)}
      where ended_at is not null and (ended_at, id) >= (${formatTime(endedAt)}, ${id}) ${page}
    ) ${sql.ref(`of_${table}`)}`,
  )
  const { rows } = await engine.retrying(() =>
    sql<{ id: string; ended_at: Date | string }>`${sql.join(parts, sql` union all `)}
      ${page}`.execute(engine.db),
  )
  return rows.map(row => ({ id: row.id, endedAt: parseTime(row.ended_at) }))
}

export type RemovedSession = { id: string; ended_at: Date | string }

/** Keeps the ends of sessions whose rows the transaction has removed. */
export async function keepEnded(
  engine: Engine,
  trx: Transaction<Schema>,
  removed: RemovedSession[],
  now: Date,
) {
  const rows = rowsAsJson(engine.name, 'ended_sessions', ['id', 'ended_at'], removed)
  await sql`insert into ended_sessions (id, ended_at) ${rows}
    where ended_at > ${formatTime(now, -ENDED_LISTED_SECONDS * 1000)}`.execute(trx)
}
