// Adds the daily failures, the scope `network`, and more dummy rows for emails without a user.
import { type Kysely, sql } from 'kysely'
import type { ColumnTypes } from './column-types.ts'

/** The first dummy row was created by the first migration. */
const UNKNOWN_USERS = 256

export async function up(db: Kysely<unknown>, { time, options, isTime }: ColumnTypes) {
  // SQLite cannot change the check of a column: the rows are copied to a new table.
  await sql`alter table login_throttle rename to old_login_throttle`.execute(db)
  await sql`create table login_throttle (
    key text primary key check (length(key) = 64),
    scope text not null check (scope in ('pair', 'email', 'client', 'network', 'device')),
    email_digest text check (length(email_digest) = 64),
    failures integer not null check (failures >= 0),
    daily_failures integer not null default 0 check (daily_failures >= 0),
    pending integer not null check (pending >= 0),
    lease_ends_at ${time.type} not null ${isTime('lease_ends_at')},
    window_ends_at ${time.type} not null ${isTime('window_ends_at')},
    day_ends_at ${time.type} ${isTime('day_ends_at')},
    blocked_until ${time.type} ${isTime('blocked_until')},
    expires_at ${time.type} not null ${isTime('expires_at')}
  ) ${options}`.execute(db)
  const columns = sql`key, scope, email_digest, failures, pending, lease_ends_at, window_ends_at, blocked_until, expires_at`
  await sql`insert into login_throttle (${columns})
    select ${columns} from old_login_throttle`.execute(db)
  await sql`drop table old_login_throttle`.execute(db)
  await sql`create index login_throttle_email_digest on login_throttle (email_digest)`.execute(db)
  await sql`create index login_throttle_expires_at on login_throttle (expires_at)`.execute(db)

  const rows = Array.from({ length: UNKNOWN_USERS - 1 }, (_, index) => {
    const suffix = (index + 1).toString(16).padStart(2, '0')
    const id = `00000000-0000-4000-8000-0000000000${suffix}`
    return sql`(${sql.lit(id)}, ${sql.lit(`nobody-${suffix}@localhost`)}, '', '')`
  })
  await sql`insert into unknown_user (id, email, password_hash, name)
    values ${sql.join(rows)}`.execute(db)
}
