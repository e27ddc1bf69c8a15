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
    // Without a foreign key: a revoked device leaves its id behind, which no other device ever gets.
    sql`alter table sessions add column device_id ${uuid.type} ${uuid.check('device_id')}`,
    sql`alter table sessions add column has_tokens ${flag.type} not null default ${flag.true}
      ${flag.check('has_tokens')}`,

    // Without the id, by which PostgreSQL would search all of it while the table is young.
    sql`create index sessions_live on sessions (user_id, generation, created_at)
      where ended_at is null`,
    sql`create index sessions_device_id on sessions (device_id)
      where ended_at is null and device_id is not null`,
    // Smaller than before: each session is in one of the three.
    sql`drop index sessions_idle_expires_at`,
    sql`create index sessions_idle_expires_at on sessions (idle_expires_at) where ended_at is null`,
    sql`drop index sessions_ended_at`,
    sql`create index sessions_ended_at on sessions (ended_at)
      where ended_at is not null and not has_tokens`,
    sql`create index sessions_ended_with_tokens on sessions (ended_at)
      where ended_at is not null and has_tokens`,

    // The token of an ended session is revoked, whatever ended it. Only the newest can be unrevoked; several
    // may be of the same second.
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
