// All tables of the first release.
import { randomBytes } from 'node:crypto'
import { type Kysely, sql } from 'kysely'
import { DUMMY_IDS } from '../sql/schema.ts'
import type { ColumnTypes } from './column-types.ts'

export async function up(db: Kysely<unknown>, column: ColumnTypes): Promise<void> {
  const { engine, uuid, flag, json, options, time, now } = column
  /** The last login of a user; in `sessions`, the one before the session's own. */
  const lastLogin = sql`last_login_at ${time('last_login_at')},
    last_login_ip text,
    last_login_user_agent text,
    failures_since_login integer not null default 0`
  // `unknown_user` has the same columns, so that a dummy row costs as much to read and write as a user's.
  const users = ['users', 'unknown_user'].map(
    table => sql`create table ${sql.table(table)} (
      id ${uuid.type} primary key default ${uuid.random} ${uuid.check('id')},
      email text not null unique check (length(email) <= 254 and email like '%_@_%'),
      password_hash text not null check (length(password_hash) <= 255),
      upgraded_from text check (length(upgraded_from) = 64),
      temporary_until ${time('temporary_until')},
      name text not null check (length(name) <= 100),
      role text not null default 'user' check (length(role) <= 50),
      is_active ${flag.type} not null default ${flag.true} ${flag.check('is_active')},
      failed_login_attempts integer not null default 0 check (failed_login_attempts >= 0),
      locked_until ${time('locked_until')},
      locked_by text check (locked_by in ('throttle', 'administrator')),
      ${lastLogin},
      created_at ${time('created_at')} not null default ${now},
      updated_at ${time('updated_at')} not null default ${now}
    ) ${options}`,
  )
  const dummies = DUMMY_IDS.map(id => sql`(${sql.lit(id)}, ${sql.lit(`${id}@localhost`)}, '', '')`)
  const statements = [
    ...users,
    // Dummy rows have the same index, so that a block costs as much to write as a user's lock.
    ...['users', 'unknown_user'].map(table =>
      sql.raw(`create index ${table}_locked on ${table} (email) where locked_until is not null`),
    ),
    // The purge removes the address of a login after a time.
    sql`create index users_last_login on users (last_login_at) where last_login_ip is not null`,
    sql`insert into unknown_user (id, email, password_hash, name) values ${sql.join(dummies)}`,

    sql`create table sessions (
      id ${uuid.type} primary key default ${uuid.random} ${uuid.check('id')},
      user_id ${uuid.type} not null references users (id) on delete cascade,
      -- Without a foreign key: the id of a revoked device stays, and no other device ever gets it.
      device_id ${uuid.type} ${uuid.check('device_id')},
      created_at ${time('created_at')} not null default ${now},
      last_used_at ${time('last_used_at')} not null,
      idle_expires_at ${time('idle_expires_at')} not null,
      expires_at ${time('expires_at')} not null,
      -- A refresh changes no indexed column: the purge looks at a session at this time, and postpones it if it was used.
      purge_at ${time('purge_at')} not null default '1970-01-01T00:00:00.000Z',
      ended_at ${time('ended_at')},
      cookie_digest text unique check (length(cookie_digest) = 64),
      cookie_used_at ${time('cookie_used_at')},
      user_agent text not null check (length(user_agent) <= 256),
      ip text not null check (length(ip) <= 45),
      ${lastLogin}
    ) ${options}`,
    sql`create unique index sessions_user_id on sessions (user_id, id)`,
    // "is not null" is always true. Without it PostgreSQL, while the table is empty, plans to read these indexes
    // whole for statements that find a session by its id.
    sql`create index sessions_live on sessions (user_id, created_at)
      where ended_at is null and user_id is not null`,
    sql`create index sessions_device_id on sessions (device_id)
      where ended_at is null and device_id is not null`,
    sql`create index sessions_purge_at on sessions (purge_at, id)
      where ended_at is null and purge_at is not null`,
    sql`create index sessions_ended_at on sessions (ended_at, id) where ended_at is not null`,

    /** The ids of ended sessions whose rows were removed with their user. */
    sql`create table ended_sessions (
      id ${uuid.type} not null primary key ${uuid.check('id')},
      ended_at ${time('ended_at')} not null
    ) ${options}`,
    sql`create index ended_sessions_ended_at on ended_sessions (ended_at, id)`,

    sql`create table refresh_tokens (
      id ${uuid.type} primary key default ${uuid.random} ${uuid.check('id')},
      user_id ${uuid.type} not null references users (id) on delete cascade,
      session_id ${uuid.type} not null,
      token text not null ${engine === 'sqlite' ? sql`unique` : sql``} check (length(token) <= 500),
      key_id text not null check (length(key_id) <= 100),
      expires_at ${time('expires_at')} not null,
      created_at ${time('created_at')} not null default ${now},
      revoked_at ${time('revoked_at')},
      successor_id ${uuid.type},
      request_digest text,
      client_digest text,
      foreign key (user_id, session_id) references sessions (user_id, id) on delete cascade
    ) ${options}`,
    sql`create index refresh_tokens_user_id on refresh_tokens (user_id, session_id, created_at)`,
    sql`create index refresh_tokens_expires_at on refresh_tokens (expires_at)
      where revoked_at is null`,
    sql`create index refresh_tokens_revoked_at on refresh_tokens (revoked_at)
      where revoked_at is not null`,

    sql`create table login_codes (
      digest text primary key check (length(digest) = 64),
      session_id ${uuid.type} not null references sessions (id) on delete cascade,
      callback text not null check (length(callback) <= 2048),
      challenge text not null check (length(challenge) = 43),
      expires_at ${time('expires_at')} not null
    ) ${options}`,
    sql`create index login_codes_session_id on login_codes (session_id)`,
    sql`create index login_codes_expires_at on login_codes (expires_at)`,

    sql`create table devices (
      id ${uuid.type} primary key default ${uuid.random} ${uuid.check('id')},
      user_id ${uuid.type} not null references users (id) on delete cascade,
      token text not null unique check (length(token) = 64),
      created_at ${time('created_at')} not null default ${now},
      last_used_at ${time('last_used_at')} not null,
      expires_at ${time('expires_at')} not null,
      user_agent text not null check (length(user_agent) <= 256)
    ) ${options}`,
    sql`create index devices_user_id on devices (user_id)`,
    sql`create index devices_expires_at on devices (expires_at)`,

    sql`create table login_throttle (
      key text primary key check (length(key) = 64),
      scope text not null check (scope in ('pair', 'email', 'client', 'network', 'device')),
      email_digest text check (length(email_digest) = 64),
      failures integer not null check (failures >= 0),
      pending integer not null check (pending >= 0),
      lease_ends_at ${time('lease_ends_at')} not null,
      window_ends_at ${time('window_ends_at')} not null,
      blocked_until ${time('blocked_until')},
      clears_at ${time('clears_at')},
      expires_at ${time('expires_at')} not null
    ) ${options}`,
    sql`create index login_throttle_email_digest on login_throttle (email_digest)
      where email_digest is not null`,
    // Clients and networks: a row has an entry only while it has failures.
    sql`create index login_throttle_clients on login_throttle (failures)
      where email_digest is null and failures > 0`,
    sql`create index login_throttle_expires_at on login_throttle (expires_at)`,

    sql`create table admin_tokens (
      name text primary key check (length(name) <= 50),
      digest text not null unique check (length(digest) = 64),
      role text not null check (role in ('read', 'write', 'create')),
      created_at ${time('created_at')} not null,
      expires_at ${time('expires_at')} not null,
      last_used_at ${time('last_used_at')}
    ) ${options}`,
    sql`create index admin_tokens_expires_at on admin_tokens (expires_at)`,

    // Without a foreign key: the events of a deleted user stay.
    sql`create table audit_events (
      id ${column.identity},
      at ${time('at')} not null,
      actor_kind text not null check (actor_kind in ('user', 'token')),
      actor text not null check (length(actor) <= 255),
      host text not null check (length(host) <= 255),
      action text not null check (length(action) <= 50),
      target text not null check (length(target) <= 254),
      target_id ${uuid.type} ${uuid.check('target_id')},
      before ${json.type} ${json.check('before')},
      after ${json.type} ${json.check('after')}
    ) ${options}`,
    sql`create index audit_events_at on audit_events (at, id)`,
    sql`create index audit_events_target on audit_events (target, id)`,
    sql`create index audit_events_target_id on audit_events (target_id, id)`,

    /** One row: the key that tags device cookies, and the time of the last readiness check. */
    sql`create table service (
      id integer primary key check (id = 1),
      device_key text not null check (length(device_key) = 64),
      checked_at ${time('checked_at')}
    ) ${options}`,
    sql`insert into service (id, device_key) values (1, ${randomBytes(32).toString('hex')})`,

    ...(engine === 'postgres' ? POSTGRES : SQLITE).map(statement => sql.raw(statement)),
  ]
  for (const statement of statements) await statement.execute(db)
}

/**
 * Revokes the token of a session, whatever ends the session. Only the newest token can be unrevoked, but several tokens
 * may have been created in the same second.
 */
const NEWEST = `select id from refresh_tokens where user_id = new.user_id and session_id = new.id
  order by created_at desc limit 100`
const REVOKE = 'update refresh_tokens set revoked_at = new.ended_at where revoked_at is null and id'
const ON_END = `create trigger revoke_tokens_of_ended_session after update of ended_at on sessions
  for each row when (old.ended_at is null and new.ended_at is not null)`

const POSTGRES = [
  `create function revoke_tokens_of_ended_session() returns trigger language plpgsql as
    $$ begin ${REVOKE} = any (array(${NEWEST})); return null; end $$`,
  `${ON_END} execute function revoke_tokens_of_ended_session()`,
  // A third of the size of a unique index: a hash index keeps four bytes of each token.
  'create index refresh_tokens_token on refresh_tokens using hash (token)',
  // Room for the next version of a row in its own page: an update then changes no index.
  'alter table sessions set (fillfactor = 80)',
  'alter table refresh_tokens set (fillfactor = 90)',
]
const SQLITE = [`${ON_END} begin ${REVOKE} in (${NEWEST}); end`]
