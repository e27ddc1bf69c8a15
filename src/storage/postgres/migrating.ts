// A migration on PostgreSQL: one process at a time, all tables locked before the first change.
import { setTimeout as sleep } from 'node:timers/promises'
import { type Kysely, sql, type Transaction } from 'kysely'
import type { Schema } from '../sql/schema.ts'
import { DEADLOCK_DETECTED, hasSqlState, LOCK_NOT_AVAILABLE } from './connection.ts'

/** A change of a large table may take long; the limit is for a server that no longer answers. */
export const MIGRATION_TIMEOUT_MS = 3_600_000
/** The key of the advisory lock: any number that no other program in this database uses. */
const MIGRATION_LOCK = 710_002
/**
 * How long it waits for all tables together. While a migration waits for a table that a long transaction reads, such as
 * a backup, every statement on that table waits behind it. So it gives up after this time, and tries again after the
 * pause, until it gets them.
 */
const TABLE_WAIT_MS = 200
const TABLE_PAUSE_MS = 1_000

export async function migrate<T>(
  db: Kysely<Schema>,
  onWait: () => void,
  step: (trx: Transaction<Schema>, lockTables: () => Promise<void>) => Promise<T>,
): Promise<T> {
  for (let tries = 1; ; tries++) {
    try {
      return await db.transaction().execute(async trx => {
        // The settings of the service are for its own statements. Until the transaction ends, no other process migrates.
        await sql`select set_config(name, value, true) from (values ('statement_timeout', '0'),
          ('lock_timeout', '0'), ('idle_in_transaction_session_timeout', '0'),
          ('enable_seqscan', 'on'), ('enable_bitmapscan', 'on')) lifted (name, value)`.execute(trx)
        await sql`select pg_advisory_xact_lock(${sql.lit(MIGRATION_LOCK)})`.execute(trx)
        return await step(trx, () => lockTables(trx))
      })
    } catch (error) {
      if (!hasSqlState(LOCK_NOT_AVAILABLE, DEADLOCK_DETECTED)(error)) throw error
      if (tries === 2) onWait()
      await sleep(TABLE_PAUSE_MS)
    }
  }
}

/** The schema may have tables of other programs. */
const TABLES = Object.keys({
  ...{ users: 0, unknown_user: 0, sessions: 0, ended_sessions: 0, refresh_tokens: 0 },
  ...{ login_codes: 0, devices: 0, login_throttle: 0, admin_tokens: 0, audit_events: 0 },
  ...{ audit_actors: 0, service: 0, second_factors: 0, recovery_codes: 0 },
} satisfies Record<keyof Schema, 0>)

/** All before the first change: if a migration could not get its last table, its work so far would be lost. */
async function lockTables(trx: Transaction<Schema>): Promise<void> {
  await sql`do $$
    declare
      ends_at timestamptz := clock_timestamp() + ${sql.lit(TABLE_WAIT_MS)} * interval '1 ms';
      name text;
    begin
      for name in select tablename from pg_tables
        where schemaname = current_schema() and tablename in (${sql.join(TABLES.map(table => sql.lit(table)))}) order by 1
      loop
        perform set_config('lock_timeout',
          greatest(1, extract(milliseconds from ends_at - clock_timestamp()))::integer::text, true);
        execute format('lock table %I in access exclusive mode', name);
      end loop;
      perform set_config('lock_timeout', ${sql.lit(String(TABLE_WAIT_MS))}, true);
    end $$`.execute(trx)
}
