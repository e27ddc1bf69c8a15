// Makes refreshes cheaper: columns that a refresh changes are in no index, and tokens have a smaller index.
import { type Kysely, sql } from 'kysely'
import type { ColumnTypes } from './column-types.ts'

export async function up(
  db: Kysely<unknown>,
  { engine, time, isTime }: ColumnTypes,
): Promise<void> {
  // The default makes every older session due: the purge looks at it once and postpones it. The id in the index lets
  // it continue among sessions of one moment.
  await sql`alter table sessions add column purge_at ${time.type} not null
    default '1970-01-01T00:00:00.000Z' ${isTime('purge_at')}`.execute(db)
  await sql`drop index sessions_idle_expires_at`.execute(db)
  // "is not null" is always true. Without it PostgreSQL, while the table is empty, plans to read these indexes
  // whole for statements that find a session by its id.
  await sql`create index sessions_purge_at on sessions (purge_at, id)
    where ended_at is null and purge_at is not null`.execute(db)
  await sql`drop index sessions_live`.execute(db)
  await sql`create index sessions_live on sessions (user_id, generation, created_at)
    where ended_at is null and user_id is not null`.execute(db)
  // SQLite cannot drop the index of a unique column.
  if (engine !== 'postgres') return
  // A third of the size: a hash index keeps four bytes of each token.
  await sql`alter table refresh_tokens drop constraint refresh_tokens_token_key`.execute(db)
  await sql`create index refresh_tokens_token on refresh_tokens using hash (token)`.execute(db)
  // Room for the next version of a row in its own page: an update then changes no index.
  await sql`alter table sessions set (fillfactor = 80)`.execute(db)
  await sql`alter table refresh_tokens set (fillfactor = 90)`.execute(db)
}
