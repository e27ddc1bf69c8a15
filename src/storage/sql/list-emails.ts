// The emails of users, a range of the table at a time, in the order in which it is stored: an index would lead to
// every row by itself, and an email that is not valid UTF-8 could not be sent back as the start of the next page.
import { sql } from 'kysely'
import type { Engine } from './engine.ts'
import { formatTime } from './schema.ts'

/** SQLite's row ids. */
const ROWS_PER_PAGE = 20_000
/** PostgreSQL's blocks of 8 KiB, each with some thirty users. */
const BLOCKS_PER_PAGE = 500

export async function listEmails(engine: Engine, from: number, since?: Date) {
  const isSqlite = engine.name === 'sqlite'
  const to = from + (isSqlite ? ROWS_PER_PAGE : BLOCKS_PER_PAGE)
  const range = isSqlite
    ? sql<boolean>`rowid >= ${from} and rowid < ${to}`
    : sql<boolean>`ctid >= ${`(${from},0)`}::tid and ctid < ${`(${to},0)`}::tid`
  const rows = await engine.retrying(() =>
    engine.db
      .selectFrom('users')
      .select('email')
      .where(range)
      .where(since ? mayHaveFailed(since) : sql<boolean>`true`)
      .execute(),
  )
  const following = isSqlite
    ? sql<{ next: number | null }>`select min(rowid) as next from users where rowid >= ${to}`
    : sql<{
        next: number | null
      }>`select case when ${to}::int * current_setting('block_size')::bigint
        < pg_relation_size('users') then ${to}::int end as next`
  const [last] = (await engine.retrying(() => following.execute(engine.db))).rows
  return { emails: rows.map(({ email }) => email), next: last?.next ?? null }
}

/** A login sets the failures of a user to 0, an unlock does not. */
function mayHaveFailed(since: Date) {
  const moment = formatTime(since)
  return sql<boolean>`(failures_since_login > 0 or last_login_at > ${moment} or updated_at > ${moment})`
}
