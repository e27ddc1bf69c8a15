// One connection of the pool, for one operation.
import pg from 'pg'

/** The server does not know the statement of this name, as after DISCARD ALL, or behind a pooler. */
export const UNKNOWN_STATEMENT = '26000'

export type Connection = {
  query(text: string, values: unknown[], name?: string): Promise<pg.QueryResult>
  release(discard?: boolean): void
}

/**
 * It is given up in time, however many statements the operation takes. One that broke, or still
 * waits for an answer, must not serve anyone again.
 */
export async function connect(pool: pg.Pool, timeoutMs: number): Promise<Connection> {
  const deadline = performance.now() + timeoutMs
  const client = await pool.connect()
  let isLost = false
  const onError = () => {
    isLost = true
  }
  // Nobody else listens between two statements: a connection that breaks then would end the process.
  client.on('error', onError)

  return {
    async query(text, values, name) {
      // The server has rolled back, or will when it finds nobody there. Asking it would take time, and
      // Kysely would report that failure in place of the one that led here.
      if (isLost && text === 'rollback') return NOTHING_TO_ROLL_BACK
      const limits = { query_timeout: Math.max(1, deadline - performance.now()) }
      try {
        return await client.query({ text, values, ...(name && { name }), ...limits })
      } catch (error) {
        // The driver would take a forgotten statement for known, ever after.
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
export function hasCode(...codes: string[]) {
  return (error: unknown) => error instanceof pg.DatabaseError && codes.includes(error.code ?? '')
}
