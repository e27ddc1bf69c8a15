// Adds the one-time codes by which applications of other sites log in. A session has few of them at a time, so a
// cascade from sessions is bounded.
import { type Kysely, sql } from 'kysely'
import type { ColumnTypes } from './column-types.ts'

export async function up(db: Kysely<unknown>, column: ColumnTypes): Promise<void> {
  const { uuid, time, isTime, options } = column
  const statements = [
    sql`create table login_codes (
      digest text primary key check (length(digest) = 64),
      session_id ${uuid.type} not null references sessions (id) on delete cascade,
      callback text not null check (length(callback) <= 2048),
      challenge text not null check (length(challenge) = 43),
      expires_at ${time.type} not null ${isTime('expires_at')}
    ) ${options}`,
    sql`create index login_codes_session_id on login_codes (session_id)`,
    sql`create index login_codes_expires_at on login_codes (expires_at)`,
  ]
  for (const statement of statements) await statement.execute(db)
}
