// One connection for all looks at the tables, because opening one takes longer than most of them.
import { DatabaseSync } from 'node:sqlite'
import pg from 'pg'
import { repeat } from '../../src/storage/sql/engine.ts'
import { isBusy } from '../../src/storage/sqlite/file.ts'
import type { Row, TestDatabase } from '../support/engines.ts'

const LOCK_TIMEOUT_MS = 5_000
/** In an order that their foreign keys allow. */
const TABLES = [
  ...['refresh_tokens', 'login_codes', 'sessions', 'ended_sessions', 'devices', 'users'],
  ...['login_throttle', 'audit_events'],
]

export type KeptDatabase = Awaited<ReturnType<typeof keepConnection>>

export async function keepConnection(database: TestDatabase) {
  const { rows, close } = await connectTo(database)
  return {
    ...database,
    rows,
    /** Removes all rows that requests and commands add, so that the next look at all tables does not take longer. */
    async clear() {
      for (const table of TABLES) await rows(`delete from ${table}`)
    },
    close,
    async drop() {
      await close()
      await database.drop()
    },
  }
}

async function connectTo({ config }: TestDatabase) {
  if (config.engine === 'sqlite') {
    const file = new DatabaseSync(config.file)
    return {
      // SQLite must not wait for a lock in this thread: a transaction of the service, here too, may hold it.
      rows: (statement: string): Promise<Row[]> =>
        repeat(async () => file.prepare(statement).all(), isBusy, LOCK_TIMEOUT_MS),
      close: async () => file.close(),
    }
  }
  const client = new pg.Client({ connectionString: config.url })
  await client.connect()
  return {
    rows: async (statement: string) => (await client.query<Row>(statement)).rows,
    close: () => client.end(),
  }
}
