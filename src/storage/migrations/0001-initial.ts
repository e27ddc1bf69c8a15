import { type Kysely, type RawBuilder, sql } from 'kysely'
import { FIRST_DUMMY_ID } from '../sql/schema.ts'
import type { ColumnTypes } from './column-types.ts'

export async function up(db: Kysely<unknown>, column: ColumnTypes): Promise<void> {
  const { uuid, time, flag, options, isTime } = column
  // `unknown_user` has the same columns, so that reading and writing a dummy row costs as much as a user's.
  const users = (table: RawBuilder<unknown>) => sql`create table ${table} (
      id ${uuid.type} primary key default ${uuid.random} ${uuid.check('id')},
      email text not null unique check (length(email) <= 254 and email like '%_@_%'),
      password_hash text not null check (length(password_hash) <= 255),
      upgraded_from text check (length(upgraded_from) = 64),
      name text not null check (length(name) <= 100),
      role text not null default 'user' check (length(role) <= 50),
      is_active ${flag.type} not null default ${flag.true} ${flag.check('is_active')},
      failed_login_attempts integer not null default 0 check (failed_login_attempts >= 0),
      locked_until ${time.type} ${isTime('locked_until')},
      locked_by text check (locked_by in ('throttle', 'administrator')),
      created_at ${time.type} not null default ${time.now} ${isTime('created_at')},
      updated_at ${time.type} not null default ${time.now} ${isTime('updated_at')}
    ) ${options}`
  const statements = [
    users(sql`users`),
    users(sql`unknown_user`),
    sql`insert into unknown_user (id, email, password_hash, name)
      values (${sql.lit(FIRST_DUMMY_ID)}, 'nobody@localhost', '', '')`,

    sql`create table sessions (
      id ${uuid.type} primary key default ${uuid.random} ${uuid.check('id')},
      user_id ${uuid.type} not null references users (id) on delete cascade,
      created_at ${time.type} not null default ${time.now} ${isTime('created_at')},
      last_used_at ${time.type} not null ${isTime('last_used_at')},
      idle_expires_at ${time.type} not null ${isTime('idle_expires_at')},
      expires_at ${time.type} not null ${isTime('expires_at')},
      ended_at ${time.type} ${isTime('ended_at')},
      cookie_digest text unique check (length(cookie_digest) = 64),
      cookie_used_at ${time.type} ${isTime('cookie_used_at')},
      user_agent text not null check (length(user_agent) <= 256),
      ip text not null check (length(ip) <= 45)
    ) ${options}`,
    sql`create index sessions_user_id on sessions (user_id)`,
    sql`create index sessions_ended_at on sessions (ended_at)`,
    sql`create index sessions_idle_expires_at on sessions (idle_expires_at)`,

    sql`create table refresh_tokens (
      id ${uuid.type} primary key default ${uuid.random} ${uuid.check('id')},
      user_id ${uuid.type} not null references users (id) on delete cascade,
      session_id ${uuid.type} not null references sessions (id) on delete cascade,
      token text not null unique check (length(token) <= 500),
      key_id text not null check (length(key_id) <= 100),
      expires_at ${time.type} not null ${isTime('expires_at')},
      created_at ${time.type} not null default ${time.now} ${isTime('created_at')},
      revoked_at ${time.type} ${isTime('revoked_at')},
      successor_id ${uuid.type}
    ) ${options}`,
    sql`create index refresh_tokens_user_id on refresh_tokens (user_id)`,
    sql`create index refresh_tokens_session_id on refresh_tokens (session_id)`,
    sql`create index refresh_tokens_expires_at on refresh_tokens (expires_at)`,

    sql`create table devices (
      id ${uuid.type} primary key default ${uuid.random} ${uuid.check('id')},
      user_id ${uuid.type} not null references users (id) on delete cascade,
      token text not null unique check (length(token) = 64),
      created_at ${time.type} not null default ${time.now} ${isTime('created_at')},
      last_used_at ${time.type} not null ${isTime('last_used_at')},
      expires_at ${time.type} not null ${isTime('expires_at')},
      user_agent text not null check (length(user_agent) <= 256)
    ) ${options}`,
    sql`create index devices_user_id on devices (user_id)`,
    sql`create index devices_expires_at on devices (expires_at)`,

    sql`create table login_throttle (
      key text primary key check (length(key) = 64),
      scope text not null check (scope in ('pair', 'email', 'client', 'device')),
      email_digest text check (length(email_digest) = 64),
      failures integer not null check (failures >= 0),
      pending integer not null check (pending >= 0),
      lease_ends_at ${time.type} not null ${isTime('lease_ends_at')},
      window_ends_at ${time.type} not null ${isTime('window_ends_at')},
      blocked_until ${time.type} ${isTime('blocked_until')},
      expires_at ${time.type} not null ${isTime('expires_at')}
    ) ${options}`,
    sql`create index login_throttle_email_digest on login_throttle (email_digest)`,
    sql`create index login_throttle_expires_at on login_throttle (expires_at)`,

    sql`create table readiness (
      id integer primary key check (id = 1),
      checked_at ${time.type} not null
    ) ${options}`,
  ]
  for (const statement of statements) await statement.execute(db)
}
