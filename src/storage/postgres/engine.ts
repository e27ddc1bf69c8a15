// The server engine: a pool of connections.
import { Kysely, PostgresDialect, type PostgresPoolClient, sql } from 'kysely'
import pg from 'pg'
import { type Engine, repeat } from '../sql/engine.ts'
import type { Statement } from '../sql/prepared.ts'
import type { Schema } from '../sql/schema.ts'
import { connect, hasCode, UNKNOWN_STATEMENT } from './connection.ts'
import { reserve } from './reserve.ts'
import { createSettling, type Run } from './settle.ts'

/** A login holds a connection for a few milliseconds; hashing, which holds none, is the bottleneck. */
const POOL_SIZE = 10
const CONNECT_TIMEOUT_MS = 1_000
/** Nobody waits for an answer yet, and a machine that starts many processes is slow. */
const MIGRATION_CONNECT_TIMEOUT_MS = 10_000
/** A change of a large table takes its time; a server that is gone is noticed by then. */
const MIGRATION_TIMEOUT_MS = 3_600_000

/** Any number that nothing else in this database locks. */
const HOUSEKEEPING_LOCK = 710_001

// https://www.postgresql.org/docs/current/errcodes-appendix.html
const SERIALIZATION_FAILURE = '40001'
const DEADLOCK_DETECTED = '40P01'
const UNIQUE_VIOLATION = '23505'
const PASSING = [SERIALIZATION_FAILURE, DEADLOCK_DETECTED, UNKNOWN_STATEMENT]

export type PostgresOptions = {
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
    // The server stops its own work first; the client's limit is for a server that does not answer.
    statement_timeout: operationTimeoutMs - 200,
    // Above the server's own deadlock_timeout, so that a deadlock is told from a long wait.
    lock_timeout: operationTimeoutMs - 300,
    idle_in_transaction_session_timeout: 5_000,
  })
  pool.on('error', onConnectionLost)
  const db = openDatabase(pool, operationTimeoutMs)
  const retrying = <T>(operation: () => Promise<T>) =>
    repeat(operation, hasCode(...PASSING), operationTimeoutMs)
  // Two first attempts of one scope insert the same row: the later one finds it next time.
  const retryingFirst = <T>(operation: () => Promise<T>) =>
    repeat(operation, hasCode(UNIQUE_VIOLATION, ...PASSING), operationTimeoutMs)
  // Without Kysely's own steps to a connection and back, which cost as much as to ask the server.
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
  return {
    name: 'postgres',
    db,
    retrying,
    async migrating(operation) {
      // One connection of its own, without the limits that a login needs.
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
      reserveAttempt: (scopes, email, now) => retryingFirst(() => reserve(run, scopes, email, now)),
      ...createSettling((statement, values) => retrying(() => run(statement, values))),
    },
    isAlone: async trx => {
      const { rows } = await sql<{ alone: boolean }>`
        select pg_try_advisory_xact_lock(${sql.lit(HOUSEKEEPING_LOCK)}) as alone`.execute(trx)
      return rows[0]?.alone === true
    },
    readClock: async () => {
      const { rows } = await sql<{ now: Date }>`select clock_timestamp() as now`.execute(db)
      return rows[0]?.now ?? null
    },
    async close() {
      await db.destroy()
      // If nothing was asked through it, it does not end the pool.
      if (!pool.ending) await pool.end()
    },
  }
}

/**
 * One plan for all values of a statement: if the server chose a plan by the values, attempts at known and
 * unknown emails could take different times. As an option of the connection it cannot fail unnoticed.
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
        // Kysely's type has a second form of query, for cursors, which is never used here.
        connect: () => connect(pool, timeoutMs) as unknown as Promise<PostgresPoolClient>,
        end: () => pool.end(),
        options: pool.options,
      },
    }),
  })
}
