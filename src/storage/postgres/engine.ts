// The PostgreSQL engine: a pool of connections.
import { Kysely, PostgresDialect, type PostgresPoolClient, sql } from 'kysely'
import pg from 'pg'
import { type Engine, type RunStatement, repeat } from '../sql/engine.ts'
import type { Statement } from '../sql/prepared.ts'
import { rotationOf } from '../sql/refresh-tokens.ts'
import type { Schema } from '../sql/schema.ts'
import { connect, hasSqlState, UNKNOWN_STATEMENT } from './connection.ts'
import { reserve } from './reserve.ts'
import { rotate } from './rotate.ts'
import { createSettling, type Run } from './settle.ts'

/** Hashing is the bottleneck and holds no connection; a login holds one for a few milliseconds. */
const POOL_SIZE = 10
const CONNECT_TIMEOUT_MS = 1_000
/** No request waits yet, and a machine that starts many processes at once is slow. */
const MIGRATION_CONNECT_TIMEOUT_MS = 10_000
/** A change of a large table may take long; the limit is for a server that no longer answers. */
const MIGRATION_TIMEOUT_MS = 3_600_000

/** The key of the advisory lock of the purge: any number that no other program in this database uses. */
const PURGE_LOCK = 710_001

// https://www.postgresql.org/docs/current/errcodes-appendix.html
const SERIALIZATION_FAILURE = '40001'
const DEADLOCK_DETECTED = '40P01'
const UNIQUE_VIOLATION = '23505'
const TRANSIENT_ERRORS = [SERIALIZATION_FAILURE, DEADLOCK_DETECTED, UNKNOWN_STATEMENT]

type PostgresOptions = {
  url: string
  /** Called when an idle connection breaks; the pool has already dropped it. */
  onConnectionLost: (error: Error) => void
  /** Longest that one operation may take. */
  operationTimeoutMs: number
}

export function openPostgres(options: PostgresOptions): Engine {
  const { url, onConnectionLost, operationTimeoutMs } = options
  const pool = new pg.Pool({
    ...connectionTo(withGenericPlans(url)),
    max: POOL_SIZE,
    // Below the limit of the connection, which is for a server that does not answer.
    statement_timeout: operationTimeoutMs - 200,
    // Above the server's deadlock_timeout (1 s), so that a deadlock is not reported as a lock timeout.
    lock_timeout: operationTimeoutMs - 300,
    idle_in_transaction_session_timeout: 5_000,
  })
  pool.on('error', onConnectionLost)
  const db = openDatabase(pool, operationTimeoutMs)
  const retrying = <T>(operation: () => Promise<T>) =>
    repeat(operation, hasSqlState(...TRANSIENT_ERRORS), operationTimeoutMs)
  // Of two parallel first attempts of a scope, the second cannot insert the row; repeated, it finds the row.
  const retryingInserts = <T>(operation: () => Promise<T>) =>
    repeat(operation, hasSqlState(UNIQUE_VIOLATION, ...TRANSIENT_ERRORS), operationTimeoutMs)
  // Without Kysely, whose handling of connections costs as much as the statement.
  const run: Run = async <Values, Row>(statement: Statement<Values, Row>, values: Values) => {
    const { name, sql: text, parameters } = statement(db, values)
    const connection = await connect(pool, operationTimeoutMs)
    try {
      const { rows } = await connection.query(text, parameters, name)
      return rows as Row[]
    } finally {
      connection.release()
    }
  }
  const runRetrying: RunStatement = (statement, values) => retrying(() => run(statement, values))
  return {
    name: 'postgres',
    db,
    retrying,
    async migrating(operation) {
      // A separate connection, without the time limits of a login.
      const migrationPool = new pg.Pool({
        ...connectionTo(url),
        max: 1,
        connectionTimeoutMillis: MIGRATION_CONNECT_TIMEOUT_MS,
      })
      migrationPool.on('error', onConnectionLost)
      const migrationDb = openDatabase(migrationPool, MIGRATION_TIMEOUT_MS)
      try {
        return await operation(migrationDb)
      } finally {
        await migrationDb.destroy()
      }
    },
    attempts: {
      reserveAttempt: (scopes, email, now) =>
        retryingInserts(() => reserve(run, scopes, email, now)),
      ...createSettling(runRetrying),
    },
    async rotateRefreshToken(id, sessionId, successor, now) {
      return (await runRetrying(rotate, rotationOf(id, sessionId, successor, now))).length > 0
    },
    readPrepared: runRetrying,
    writePrepared: runRetrying,
    mayPurge: async trx => {
      const { rows } = await sql<{ is_locked: boolean }>`
        select pg_try_advisory_xact_lock(${sql.lit(PURGE_LOCK)}) as is_locked`.execute(trx)
      return rows[0]?.is_locked === true
    },
    readClock: async () => {
      const { rows } = await sql<{ now: Date }>`select clock_timestamp() as now`.execute(db)
      return rows[0]?.now ?? null
    },
    async close() {
      await db.destroy()
      // Kysely ends the pool only if it has used it.
      if (!pool.ending) await pool.end()
    },
  }
}

/**
 * One plan for all values of a statement: if the server chose a plan by the values, attempts at known and
 * unknown emails could take different times. As an option in the address: if the server rejects it, the
 * connection fails.
 */
function withGenericPlans(url: string): string {
  const connection = new URL(url)
  const given = connection.searchParams.getAll('options').at(-1) ?? process.env.PGOPTIONS ?? ''
  connection.searchParams.set('options', `${given} -c plan_cache_mode=force_generic_plan`.trim())
  return connection.toString()
}

function connectionTo(url: string): pg.PoolConfig {
  return {
    connectionString: url,
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    keepAlive: true,
    application_name: 'login-service',
  }
}

function openDatabase(pool: pg.Pool, timeoutMs: number): Kysely<Schema> {
  return new Kysely<Schema>({
    dialect: new PostgresDialect({
      pool: {
        // Kysely's type also has a form of `query` for cursors, which is not used here.
        connect: () => connect(pool, timeoutMs) as unknown as Promise<PostgresPoolClient>,
        end: () => pool.end(),
        options: pool.options,
      },
    }),
  })
}
