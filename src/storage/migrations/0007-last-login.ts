// Adds the last login of each user and the failures since, and to each session what they were at its login.
import { type Kysely, sql } from 'kysely'
import type { ColumnTypes } from './column-types.ts'

export async function up(db: Kysely<unknown>, { time, isTime }: ColumnTypes): Promise<void> {
  // The texts are copies of columns of `sessions`, which have a limit. A check here would make PostgreSQL read the
  // whole table while logins wait.
  const columns = [
    sql`last_login_at ${time.type} ${isTime('last_login_at')}`,
    sql`last_login_ip text`,
    sql`last_login_user_agent text`,
    sql`failures_since_login integer not null default 0`,
  ]
  // `users` and `unknown_user` keep the same columns in the same order.
  for (const table of ['users', 'unknown_user', 'sessions']) {
    for (const column of columns) {
      await sql`alter table ${sql.table(table)} add column ${column}`.execute(db)
    }
  }
}
