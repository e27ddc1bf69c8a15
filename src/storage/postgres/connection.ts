// A connection from the pool, for one operation with one time limit.
import pg from 'pg'

/** The server does not know the prepared statement, for example after DISCARD ALL or behind a pooler. */
export const UNKNOWN_STATEMENT = '26000'

export type Connection = {
  query(text: string, values: unknown[], name?: string): Promise<pg.QueryResult>
  release(discard?: boolean): void
}

/**
 * The timeout is for all statements of the operation together. A connection that broke or still waits for
 * an answer is closed on release, so that no other operation gets it.
 */
export async function connect(pool: pg.Pool, timeoutMs: number): Promise<Connection> {
  const deadline = performance.now() + timeoutMs
  const client = await pool.connect()
  let isLost = false
  const onError = () => {
    isLost = true
  }
  // Between two statements there is no other listener, and an unhandled error event would end the process.
  client.on('error', onError)

  return {
    async query(text, values, name) {
      // The server rolls back when the connection closes. A rollback through a lost connection would take
      // time and fail, and Kysely would report that failure instead of the first one.
      if (isLost && text === 'rollback') return NOTHING_TO_ROLL_BACK
      const limits = { query_timeout: Math.max(1, deadline - performance.now()) }
      try {
        return await client.query({ text, values, ...(name && { name }), ...limits })
      } catch (error) {
        // After UNKNOWN_STATEMENT the driver still believes that the server knows the statement.
        isLost ||= !(error instanceof pg.DatabaseError) || error.code === UNKNOWN_STATEMENT
        if (text !== 'rollback') throw error
        isLost = true
        return NOTHING_TO_ROLL_BACK
      }
    },
    release(discard) {
      client.off('error', onError)
      client.release(isLost || discard)
    },
  }
}

const NOTHING_TO_ROLL_BACK = { command: 'ROLLBACK', rowCount: 0, oid: 0, fields: [], rows: [] }

/** Whether an error of the server has one of these codes. */
export function hasSqlState(...codes: string[]) {
  return (error: unknown) => error instanceof pg.DatabaseError && codes.includes(error.code ?? '')
}
