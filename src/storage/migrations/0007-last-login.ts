// Adds the last login of each user and the failures since, and to each session what they were at its login.
import { type Kysely, sql } from 'kysely'
import type { ColumnTypes } from './column-types.ts'

export async function up(db: Kysely<unknown>, types: ColumnTypes): Promise<void> {
  const { engine, time, isTime } = types
  // The texts are copies of columns of `sessions`, which have a limit. A check here would make PostgreSQL read the
  // whole table while logins wait.
  const columns = [
    sql`add column last_login_at ${time.type} ${isTime('last_login_at')}`,
    sql`add column last_login_ip text`,
    sql`add column last_login_user_agent text`,
    sql`add column failures_since_login integer not null default 0`,
  ]
  // SQLite adds one column at a time. On PostgreSQL logins wait from the first statement on.
  const changes = engine === 'postgres' ? [sql.join(columns)] : columns
  // `users` and `unknown_user` keep the same columns in the same order.
  for (const table of ['users', 'unknown_user', 'sessions']) {
    for (const change of changes) await sql`alter table ${sql.table(table)} ${change}`.execute(db)
  }
}
