// The differences of the two engines behind one type, so that the store above them is written once, and
// transactions that work on both.
import type { Kysely, Transaction } from 'kysely'
import type { DatabaseConfig } from '../../config/database.ts'
import type { MaintenanceStore } from '../../domain/maintenance.ts'
import { within } from '../../system/time-limit.ts'
import type { RunStatement, Steps } from './prepared.ts'
import type { Schema } from './schema.ts'
import type { ReplacedRow, Rotation } from './token-rows.ts'

export type EngineName = DatabaseConfig['engine']

/** The size of a batch. SQLite has smaller ones, because other operations wait for each transaction. */
export const ROWS_AT_A_TIME = { sqlite: 100, postgres: 500 }

export type Engine = {
  name: EngineName
  db: Kysely<Schema>
  /** Repeats an operation that failed because of a parallel one, without blocking the event loop. */
  retrying<T>(operation: () => Promise<T>): Promise<T>
  /**
   * One transaction on a connection of its own, while no other process migrates. `lockTables` locks all tables until it
   * ends. It is repeated as long as other transactions hold them; `onWait` is called once then.
   */
  migrating<T>(
    onWait: () => void,
    step: (trx: Transaction<Schema>, lockTables: () => Promise<void>) => Promise<T>,
  ): Promise<T>
  /**
   * One transaction of prepared statements, repeated if a parallel one prevented it. A commit `locally` does not wait for
   * a synchronous standby, and so releases its locks sooner.
   */
  inTransaction<T>(steps: () => Steps<T>, commit?: 'durably' | 'locally'): Promise<T>
  /** Replaces a refresh token, in one transaction; null if there is none that may be replaced. */
  useToken(rotation: Rotation): Promise<ReplacedRow | null>
  /** For the statements of every refresh and every request with a session. */
  readPrepared: RunStatement
  writePrepared: RunStatement
  /** Inserts all rows, which have the same columns, in the transaction `trx`. Returns which ones no stored row conflicts with. */
  insertRows(
    trx: Kysely<Schema>,
    table: 'users' | 'audit_events',
    rows: Record<string, unknown>[],
  ): Promise<boolean[]>
  /** False while another instance purges. True reserves the purge for this instance until `trx` ends. */
  mayPurge(trx: Transaction<Schema>): Promise<boolean>
  /** SQLite keeps earlier versions of changed pages there. Does nothing while another process reads; and on PostgreSQL. */
  emptyWriteAheadLog(): Promise<void>
  maintenance: Omit<MaintenanceStore, 'purge' | 'checkWritable'>
  close(): Promise<void>
}

/** One transaction, repeated if a parallel one prevented it. */
export function transact<T>(
  engine: Engine,
  operation: (trx: Transaction<Schema>) => Promise<T>,
): Promise<T> {
  return engine.retrying(() => engine.db.transaction().execute(operation))
}

/** One statement: PostgreSQL commits it without a further round trip, SQLite takes the write lock first. */
export function write<T>(
  engine: Engine,
  statement: (db: Kysely<Schema>) => Promise<T>,
): Promise<T> {
  return engine.name === 'postgres'
    ? engine.retrying(() => statement(engine.db))
    : transact(engine, statement)
}

/**
 * Longest time that one operation of the service may take, waiting included, so that a login that fails
 * is answered within 2 s. An administrator's command has a longer limit of its own.
 */
export const SERVICE_OPERATION_TIMEOUT_MS = 1_500

/** Most locks are gone within a millisecond; for longer ones, growing pauses save work. */
const FIRST_PAUSE_MS = 4
const LONGEST_PAUSE_MS = 50

/**
 * Repeats the operation while `mayRepeat` accepts its error, until the time is up. Pauses are random. The first run
 * has its own time limit, a repetition only the time that is left: after that it may still succeed, like an operation
 * whose answer is lost.
 */
export async function repeat<T>(
  operation: () => Promise<T>,
  mayRepeat: (error: unknown) => boolean,
  timeoutMs = SERVICE_OPERATION_TIMEOUT_MS,
): Promise<T> {
  const deadline = performance.now() + timeoutMs
  let running = operation()
  for (let longestMs = FIRST_PAUSE_MS; ; longestMs = Math.min(2 * longestMs, LONGEST_PAUSE_MS)) {
    try {
      return await running
    } catch (error) {
      const pauseMs = Math.random() * longestMs
      if (!mayRepeat(error) || performance.now() + pauseMs > deadline) throw error
      await new Promise(resolve => setTimeout(resolve, pauseMs))
      running = within(operation(), deadline - performance.now(), 'a repeated operation')
    }
  }
}
