// Migrations on PostgreSQL: one process at a time, all tables locked before the first change, and a look at the
// connections that are in the way.
import { setTimeout as sleep } from 'node:timers/promises'
import { type Kysely, sql, type Transaction } from 'kysely'
import {
  describeConnections,
  type OnMigrationProgress,
  type OtherConnection,
  UnusableTables,
} from '../../domain/migration.ts'
import type { Migrating } from '../sql/engine.ts'
import type { Schema } from '../sql/schema.ts'
import {
  APPLICATION_NAME,
  DEADLOCK_DETECTED,
  hasSqlState,
  LOCK_NOT_AVAILABLE,
} from './connection.ts'

/** A change of a large table may take long; the limit is for a server that no longer answers. */
export const MIGRATION_TIMEOUT_MS = 3_600_000
/** The key of the advisory lock: any number that no other program in this database uses. */
const MIGRATION_LOCK = 710_002
/** How long it waits for the migration of another process. */
const PROCESS_WAIT_MS = 5_000
/**
 * How long it waits for all tables together. While a migration waits for a table that a long transaction reads, such as
 * a backup, every statement on that table waits behind it. So it gives up after this time, and tries again after the
 * pause.
 */
const TABLE_WAIT_MS = 200
const TABLE_PAUSE_MS = 1_000
/** The second failed try is reported, and then about one per minute. */
const REPORTED_TRY = 2
const TRIES_PER_REPORT = 50

/**
 * All tables, in the order in which most statements use them: a statement that holds one table while it waits for a
 * table that the migration holds makes the try fail.
 */
const LOCK_ORDER: Record<keyof Schema, true> = {
  login_throttle: true,
  sessions: true,
  ended_sessions: true,
  refresh_tokens: true,
  login_codes: true,
  users: true,
  unknown_user: true,
  devices: true,
  device_key: true,
  audit_events: true,
  audit_purge: true,
  readiness: true,
}
const TABLES = sql`array[${sql.join(Object.keys(LOCK_ORDER).map(table => sql.lit(table)))}]`

const CONNECTION = sql`a.pid, coalesce(nullif(a.application_name, ''), a.backend_type) as application, a.state,
  extract(epoch from clock_timestamp() - coalesce(a.xact_start, a.state_change))::integer as seconds`

export function createMigrating(db: Kysely<Schema>, onProgress: OnMigrationProgress): Migrating {
  return {
    async transact(step) {
      const deadlineMs = performance.now() + MIGRATION_TIMEOUT_MS
      for (let tries = 1; ; tries++) {
        try {
          return await db.transaction().execute(async trx => {
            await waitForOthers(trx)
            return await step(trx)
          })
        } catch (error) {
          if (!hasSqlState(LOCK_NOT_AVAILABLE, DEADLOCK_DETECTED)(error)) throw error
          const blockedBy = await listBlockers(db)
          if (performance.now() > deadlineMs) {
            throw new UnusableTables(
              `its tables were in use for an hour by ${describeConnections(blockedBy)}: end these transactions, and start again`,
            )
          }
          if (tries % TRIES_PER_REPORT === REPORTED_TRY) onProgress({ kind: 'waiting', blockedBy })
          await sleep(TABLE_PAUSE_MS)
        }
      }
    },

    async claimTables(trx, mustBeAlone) {
      if (mustBeAlone) await refuseBesideInstances(trx)
      await lockTables(trx)
    },
  }
}

/** Until the transaction ends, no other process migrates. */
async function waitForOthers(trx: Transaction<Schema>): Promise<void> {
  // The role may have limits of its own.
  await sql`select set_config('statement_timeout', '0', true),
    set_config('idle_in_transaction_session_timeout', '0', true),
    set_config('lock_timeout', ${String(PROCESS_WAIT_MS)}, true)`.execute(trx)
  await sql`select pg_advisory_xact_lock(${sql.lit(MIGRATION_LOCK)})`.execute(trx)
}

/** All before the first change: if a migration could not get its last table, its work so far would be lost. */
async function lockTables(trx: Transaction<Schema>): Promise<void> {
  await sql`do $$
    declare
      ends_at timestamptz := clock_timestamp() + ${sql.lit(TABLE_WAIT_MS)} * interval '1 ms';
      name text;
    begin
      foreach name in array ${TABLES} loop
        continue when to_regclass(name) is null;
        perform set_config('lock_timeout',
          greatest(1, extract(milliseconds from ends_at - clock_timestamp()))::integer::text, true);
        execute format('lock table %I in access exclusive mode', name);
      end loop;
      perform set_config('lock_timeout', ${sql.lit(String(TABLE_WAIT_MS))}, true);
    end $$`.execute(trx)
}

async function refuseBesideInstances(trx: Transaction<Schema>): Promise<void> {
  const { rows } = await sql<OtherConnection>`select ${CONNECTION} from pg_stat_activity a
    where datname = current_database() and application_name = ${APPLICATION_NAME}
    limit 10`.execute(trx)
  const [first] = rows
  if (!first) return
  throw new UnusableTables(
    `its tables are those of an older version, and its running instances cannot use the new ones. Stop all of them, then start again. Connected are ${describeConnections(rows)}. If a pooler has left a connection behind, end it in psql: select pg_terminate_backend(${first.pid})`,
  )
}

/**
 * The transactions that hold a table, or the lock of the migrations, and are older than a try. PostgreSQL may hide the
 * age of another role's transaction: it is listed too.
 */
async function listBlockers(db: Kysely<Schema>): Promise<OtherConnection[]> {
  const { rows } = await sql<OtherConnection>`select distinct on (l.pid) ${CONNECTION}
    from pg_locks l left join pg_stat_activity a on a.pid = l.pid
    where l.granted and l.pid is distinct from pg_backend_pid()
      and l.database = (select oid from pg_database where datname = current_database())
      and (l.relation = any (array(select to_regclass(name) from unnest(${TABLES}) name))
        or (l.locktype = 'advisory' and l.objid = ${sql.lit(MIGRATION_LOCK)}))
      and coalesce(a.xact_start < clock_timestamp() - ${sql.lit(TABLE_WAIT_MS)} * interval '1 ms', true)
    limit 10`.execute(db)
  return rows.map(row => ({ ...row, application: row.application ?? 'prepared transaction' }))
}
