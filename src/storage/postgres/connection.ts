// A connection from the pool, for one operation with one time limit.
import pg from 'pg'
import { TimeUp, within } from '../../system/time-limit.ts'
import type { Pool } from './pool.ts'

/** The server does not know the prepared statement, for example after DISCARD ALL or behind a pooler. */
export const UNKNOWN_STATEMENT = '26000'
/** The columns of a prepared statement have changed their type: the tables were altered. */
export const CHANGED_RESULT_TYPE = '0A000'
export const DEADLOCK_DETECTED = '40P01'
export const LOCK_NOT_AVAILABLE = '55P03'
/** The server has become a standby, or was set to accept no writes. */
const READ_ONLY = '25006'
/** What an operation that had to wait for its connection has left for its statements. */
const STATEMENTS_MS = 500
/** With these the server ends the connection. */
const FATAL = ['FATAL', 'PANIC']

export type Connection = {
  query(text: string, values: unknown[], name?: string): Promise<pg.QueryResult>
  release(discard?: boolean): void
}

/**
 * The timeout is for all statements of the operation together. A connection that broke or still waits for
 * an answer does not return to the pool, so that no other operation gets it.
 */
export async function connect(pool: Pool, timeoutMs: number): Promise<Connection> {
  const startedAt = performance.now()
  const lent = await pool.take(timeoutMs - STATEMENTS_MS)
  // The wait for the first connection of the process may take longer than the operation.
  const deadline = Math.max(startedAt + timeoutMs, performance.now() + STATEMENTS_MS)
  let isLost = false
  /** The answer to a statement that was not answered in time. */
  let late: Promise<unknown> | undefined

  return {
    async query(text, values, name) {
      // The server rolls back when the connection closes. A rollback through a lost connection would take
      // time and fail, and Kysely would report that failure instead of the first one.
      if (isLost && text === 'rollback') return NOTHING_TO_ROLL_BACK
      // Behind a pooler the next transaction may get a connection of the server that does not know the name.
      const isNamed = name && !lent.isPooled
      // What is sent in one go takes one system call, which would cost more than all else that a statement does here.
      lent.client.connection.stream.cork()
      process.nextTick(() => lent.client.connection.stream.uncork())
      const answer = lent.client.query({ text, values, ...(isNamed && { name }) })
      try {
        const leftMs = deadline - performance.now()
        const result = await within(answer, leftMs, 'the database does not answer')
        pool.answeredAt = performance.now()
        return result
      } catch (error) {
        if (error instanceof TimeUp) late = answer
        // After a commit that was cancelled, the transaction may still be open. And the driver would use a statement again
        // that the server does not know or can no longer run.
        isLost ||=
          text === 'commit' ||
          !(error instanceof pg.DatabaseError) ||
          FATAL.includes(error.severity ?? '') ||
          hasSqlState(UNKNOWN_STATEMENT, CHANGED_RESULT_TYPE, READ_ONLY)(error)
        if (text !== 'rollback') throw error
        isLost = true
        return NOTHING_TO_ROLL_BACK
      }
    },
    release(discard) {
      if (isLost || discard) void pool.discard(lent, late)
      else lent.client.release()
    },
  }
}

const NOTHING_TO_ROLL_BACK = { command: 'ROLLBACK', rowCount: 0, oid: 0, fields: [], rows: [] }

/** Whether an error of the server has one of these codes. */
export function hasSqlState(...codes: string[]) {
  return (error: unknown) => error instanceof pg.DatabaseError && codes.includes(error.code ?? '')
}
