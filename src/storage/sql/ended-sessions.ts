// The sessions that were ended, for services that verify access tokens. Most are still rows of `sessions`.
import { sql, type Transaction } from 'kysely'
import { ENDED_LISTED_SECONDS } from '../../domain/lifetimes.ts'
import type { SessionEnd, SessionStore } from '../../domain/session.ts'
import type { Engine } from './engine.ts'
import { formatTime, parseTime, type Schema } from './schema.ts'

const LOWEST_ID = '00000000-0000-0000-0000-000000000000'
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

/** Keeps the ends of a user's sessions, whose rows are about to be removed. */
export async function keepEnded(trx: Transaction<Schema>, userId: string, now: Date) {
  await sql`insert into ended_sessions (id, ended_at) select id, ended_at from sessions
    where user_id = ${userId} and ended_at > ${formatTime(now, -ENDED_LISTED_SECONDS * 1000)}
    on conflict do nothing`.execute(trx)
}
