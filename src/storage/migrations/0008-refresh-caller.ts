// Adds digests of the caller that got a refresh token, so that only this caller gets the token again.
import { type Kysely, sql } from 'kysely'
import type { ColumnTypes } from './column-types.ts'

export async function up(db: Kysely<unknown>, { engine }: ColumnTypes): Promise<void> {
  const columns = [sql`add column request_digest text`, sql`add column client_digest text`]
  // SQLite adds one column at a time. On PostgreSQL refreshes wait from the first statement on.
  const changes = engine === 'postgres' ? [sql.join(columns)] : columns
  for (const change of changes) await sql`alter table refresh_tokens ${change}`.execute(db)
}
