// From a configured database to a store. Each engine's driver is loaded only where it is used.
import { OPERATION_TIMEOUT_MS } from './engine.ts'
import { createSqlStore } from './sql-store.ts'
import type { Store } from './store.ts'

export type DatabaseConfig =
  | { engine: 'sqlite'; file: string }
  | { engine: 'postgres'; url: string }

export async function openStore(
  database: DatabaseConfig,
  onConnectionLost: (error: Error) => void = () => {},
  operationTimeoutMs = OPERATION_TIMEOUT_MS,
): Promise<Store> {
  if (database.engine === 'sqlite') {
    const { openSqlite } = await import('./sqlite.ts')
    return createSqlStore(openSqlite(database.file, operationTimeoutMs))
  }
  const { openPostgres } = await import('./postgres.ts')
  const { url } = database
  return createSqlStore(openPostgres({ url, onConnectionLost, operationTimeoutMs }))
}

/** For people: which database this is, without its password. */
export function describeDatabase(database: DatabaseConfig): string {
  if (database.engine === 'sqlite') return `SQLite ${database.file}`
  const url = new URL(database.url)
  if (url.password) url.password = '***'
  // The driver takes a password from here too.
  url.search = ''
  return `PostgreSQL ${url}`
}
