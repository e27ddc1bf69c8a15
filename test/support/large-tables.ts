// Large tables, filled by one statement each, with typical shares of live, ended and expired rows.
import type { TestDatabase } from './engines.ts'

export const LARGE_TABLES = [
  'users',
  'sessions',
  'ended_sessions',
  'refresh_tokens',
  'login_codes',
  'devices',
  'login_throttle',
  'admin_tokens',
  'audit_events',
]

/** Inserts this many rows into each of the large tables; most are live. PostgreSQL has no statistics of them. */
export async function fillTables({ config, rows }: TestDatabase, count: number): Promise<void> {
  const isSqlite = config.engine === 'sqlite'
  const seconds = Date.now() / 1000
  const hex = (value: string, digits: number) =>
    isSqlite
      ? `printf('%0${digits}x', ${value})`
      : `lpad(to_hex((${value})::bigint), ${digits}, '0')`
  const uuid = (kind: string, value = 'i') =>
    `(${hex(`(${value}) * 2654435761 % 4294967296`, 8)} || '-${kind}-4000-8000-' || ${hex(value, 12)})${isSqlite ? '' : '::uuid'}`
  const digest = (prefix: string) =>
    `${hex(`i * 2654435761 % 4294967296`, 8)} || '${prefix}' || ${hex('i', 55)}`
  const at = (offsetSeconds: string) =>
    isSqlite
      ? `strftime('%Y-%m-%dT%H:%M:%fZ', ${seconds} + (${offsetSeconds}), 'unixepoch')`
      : `to_timestamp(${seconds} + (${offsetSeconds}))`
  const day = 86_400
  const series = `with recursive n(i) as (select 1 union all select i + 1 from n where i < ${count})`
  const share = (percent: number, value: string) =>
    `case when i % 100 < ${percent} then ${value} end`
  const statements = [
    `insert into users (id, email, password_hash, name, role, is_active, locked_until) ${series}
      select ${uuid('0000')}, 'user' || i || '@example.com', 'a hash', 'User',
        case when i % 100 = 0 then 'admin' else 'user' end, i % 100 <> 1,
        ${share(2, at('900'))} from n`,
    `insert into devices (id, user_id, token, last_used_at, expires_at, user_agent) ${series}
      select ${uuid('0003')}, ${uuid('0000')}, ${digest('d')}, ${at('0')}, ${at(`i % ${180 * day}`)}, '' from n`,
    `insert into sessions (id, user_id, created_at, last_used_at, idle_expires_at, expires_at, ended_at,
        cookie_digest, device_id, user_agent, ip) ${series}
      select ${uuid('0001')}, ${uuid('0000')}, ${at(`-(i % ${day})`)}, ${at(`-(i % ${day})`)},
        ${at(`i % ${7 * day}`)}, ${at(`i % ${30 * day}`)}, ${share(10, at(`-(i % ${day})`))},
        ${share(50, digest('c'))}, ${share(50, uuid('0003'))}, '', '' from n`,
    `insert into ended_sessions (id, ended_at) ${series}
      select ${uuid('0004')}, ${at(`-(i % ${day})`)} from n`,
    `insert into refresh_tokens (id, user_id, session_id, token, key_id, created_at, expires_at) ${series}
      select ${uuid('0002')}, ${uuid('0000')}, ${uuid('0001')}, ${digest('t')}, 'k', ${at('0')},
        ${at(`i % ${7 * day}`)} from n`,
    `insert into login_codes (digest, session_id, callback, challenge, expires_at) ${series}
      select ${digest('l')}, ${uuid('0001')}, '', substr(${digest('x')}, 1, 43), ${at(`i % ${7 * day}`)} from n`,
    `insert into login_throttle (key, scope, email_digest, failures, pending, lease_ends_at,
        window_ends_at, expires_at) ${series}
      select ${digest('k')}, 'email', ${digest('e')}, 1, 0, ${at('0')}, ${at('900')}, ${at('i % 900')} from n`,
    `insert into admin_tokens (name, digest, role, created_at, expires_at) ${series}
      select 'token' || i, ${digest('a')}, 'read', ${at('0')}, ${at(`i % ${90 * day}`)} from n`,
    `insert into audit_events (at, actor_kind, actor, host, action, target, target_id) ${series}
      select ${at('0')}, 'user', 'admin', 'machine', 'user.added', 'user' || i || '@example.com', ${uuid('0000')} from n`,
  ]
  // It would make statistics.
  for (const table of isSqlite ? [] : LARGE_TABLES) {
    await rows(`alter table ${table} set (autovacuum_enabled = off)`)
  }
  for (const statement of statements) await rows(statement)
}

/** PostgreSQL does this by itself within minutes; the service never does it for SQLite. */
export async function analyzeTables({ rows }: TestDatabase): Promise<void> {
  for (const table of LARGE_TABLES) await rows(`analyze ${table}`)
}
