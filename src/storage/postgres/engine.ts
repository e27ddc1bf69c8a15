// The PostgreSQL engine: a pool of connections.
import { Kysely, PostgresAdapter, PostgresDialect, type PostgresPoolClient, sql } from 'kysely'
import { rowsAsJson } from '../sql/dialect.ts'
import { type Engine, repeat } from '../sql/engine.ts'
import type { RunStatement } from '../sql/prepared.ts'
import type { Schema } from '../sql/schema.ts'
import {
  CHANGED_RESULT_TYPE,
  type Connection,
  connect,
  DEADLOCK_DETECTED,
  hasSqlState,
  UNKNOWN_STATEMENT,
} from './connection.ts'
import { MIGRATION_TIMEOUT_MS, migrate } from './migrating.ts'
import { Pool, type PoolOptions } from './pool.ts'
import { runTransaction } from './transaction.ts'
import { useToken } from './use-token.ts'

/** The key of the advisory lock: any number that no other program in this database uses. */
export const PURGE_LOCK = 710_001

// https://www.postgresql.org/docs/current/errcodes-appendix.html
const SERIALIZATION_FAILURE = '40001'
/** The second of two parallel first attempts of a scope cannot add its row; repeated, it finds the row. */
const UNIQUE_VIOLATION = '23505'
const TRANSIENT_ERRORS = [
  SERIALIZATION_FAILURE,
  DEADLOCK_DETECTED,
  UNKNOWN_STATEMENT,
  CHANGED_RESULT_TYPE,
]

/** The connections that the server, or the limit of the role, allows. */
const CONNECTION_LIMIT = `
  select least(current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int,
    nullif(rolconnlimit, -1)) as most
  from pg_catalog.pg_roles where rolname = current_user`

export function openPostgres(options: PoolOptions): Engine {
  const { operationTimeoutMs } = options
  const pool = new Pool(options)
  const db = openDatabase(pool, operationTimeoutMs)
  const retrying = <T>(operation: () => Promise<T>) =>
    repeat(operation, hasSqlState(...TRANSIENT_ERRORS), operationTimeoutMs)
  // Without Kysely, whose handling of connections costs as much as a statement.
  const connected = async <T>(use: (connection: Connection) => Promise<T>): Promise<T> => {
    const connection = await connect(pool, operationTimeoutMs)
    try {
      return await use(connection)
    } finally {
      connection.release()
    }
  }
  const runPrepared: RunStatement = (statement, values) =>
    retrying(() =>
      connected(async connection => {
        const { sql: text, parameters, name } = statement(db, values)
        const { rows } = await connection.query(text, parameters, name)
        return rows
      }),
    )
  return {
    name: 'postgres',
    db,
    retrying,
    migrating: (onWait, step) => migrate(openDatabase(pool, MIGRATION_TIMEOUT_MS), onWait, step),
    inTransaction: (steps, commit = 'durably') =>
      repeat(
        () => connected(connection => runTransaction(connection, db, commit, steps())),
        hasSqlState(UNIQUE_VIOLATION, ...TRANSIENT_ERRORS),
        operationTimeoutMs,
      ),
    async useToken(rotation) {
      const [row] = await runPrepared(useToken, rotation)
      return row ?? null
    },
    readPrepared: runPrepared,
    writePrepared: runPrepared,
    async insertRows(trx, table, rows) {
      const columns = Object.keys(rows[0] ?? {})
      const names = sql.join(columns.map(column => sql.ref(column)))
      // A row that gets its id here conflicts with no other, so there is nothing to return.
      const areNew = !columns.includes('id')
      const { rows: inserted } = await sql<{ id: unknown }>`
        insert into ${sql.table(table)} (${names}) ${rowsAsJson('postgres', table, columns, rows)}
        ${areNew ? sql`` : sql`on conflict do nothing returning id`}`.execute(trx)
      const ids = new Set(inserted.map(({ id }) => id))
      return rows.map(({ id }) => areNew || ids.has(id))
    },
    mayPurge: async trx => {
      const { rows } = await sql<{ is_locked: boolean }>`
        select pg_try_advisory_xact_lock(${sql.lit(PURGE_LOCK)}) as is_locked`.execute(trx)
      return rows[0]?.is_locked === true
    },
    emptyWriteAheadLog: async () => {},
    maintenance: {
      countConnections: async () => pool.count(),
      readClock: async () => {
        const { rows } = await sql<{ now: Date }>`select clock_timestamp() as now`.execute(db)
        return rows[0]?.now ?? null
      },
      readConnectionLimit: async () => {
        const { client, isPooled } = await pool.take(operationTimeoutMs)
        try {
          const { rows } = await client.query(CONNECTION_LIMIT)
          return isPooled ? null : rows[0].most
        } finally {
          client.release()
        }
      },
    },
    // Kysely ends the pool only if it has used it.
    close: () => pool.end(),
  }
}

function openDatabase(pool: Pool, timeoutMs: number): Kysely<Schema> {
  return new Kysely<Schema>({
    dialect: new TransactionLockedDialect({
      pool: {
        // Kysely's type also has a form of `query` for cursors, which is not used here.
        connect: () => connect(pool, timeoutMs) as unknown as Promise<PostgresPoolClient>,
        end: () => pool.end(),
        options: {},
      },
    }),
  })
}

/** Without Kysely's lock for migrations, which a session holds: a pooler may change the session. */
class TransactionLockedDialect extends PostgresDialect {
  override createAdapter(): PostgresAdapter {
    return new TransactionLockedAdapter()
  }
}

class TransactionLockedAdapter extends PostgresAdapter {
  override async acquireMigrationLock(): Promise<void> {}
  override async releaseMigrationLock(): Promise<void> {}
}
