import { type Kysely, sql } from 'kysely'
import type { ColumnTypes } from './column-types.ts'

export async function up(db: Kysely<unknown>, types: ColumnTypes): Promise<void> {
  const { uuid, flag, trigger, isAmong } = types
  const newest =
    'select id from refresh_tokens where session_id = new.id order by created_at desc limit 100'
  const statements = [
    // Both tables keep the same columns in the same order.
    sql`alter table users add column session_generation integer not null default 0`,
    sql`alter table unknown_user add column session_generation integer not null default 0`,

    sql`alter table sessions add column generation integer not null default 0`,
    // Without a foreign key: the id of a revoked device stays, and no other device ever gets it.
    sql`alter table sessions add column device_id ${uuid.type} ${uuid.check('device_id')}`,
    sql`alter table sessions add column has_tokens ${flag.type} not null default ${flag.true}
      ${flag.check('has_tokens')}`,

    // Without the id: while the table is small, PostgreSQL would search the whole index for an id.
    sql`create index sessions_live on sessions (user_id, generation, created_at)
      where ended_at is null`,
    sql`create index sessions_device_id on sessions (device_id)
      where ended_at is null and device_id is not null`,
    // Partial indexes are smaller: each session is in only one of these three.
    sql`drop index sessions_idle_expires_at`,
    sql`create index sessions_idle_expires_at on sessions (idle_expires_at) where ended_at is null`,
    sql`drop index sessions_ended_at`,
    sql`create index sessions_ended_at on sessions (ended_at)
      where ended_at is not null and not has_tokens`,
    sql`create index sessions_ended_with_tokens on sessions (ended_at)
      where ended_at is not null and has_tokens`,

    // Revokes the token of a session, whatever ends the session. Only the newest token can be unrevoked, but
    // several tokens may have been created in the same second.
    sql`drop index refresh_tokens_session_id`,
    sql`create index refresh_tokens_session_id on refresh_tokens (session_id, created_at)`,
    ...trigger(
      'revoke_tokens_of_ended_session',
      { table: 'sessions', column: 'ended_at' },
      'old.ended_at is null and new.ended_at is not null',
      `update refresh_tokens set revoked_at = new.ended_at
        where revoked_at is null and ${isAmong('id', newest)}`,
    ),
  ]
  for (const statement of statements) await statement.execute(db)
}
