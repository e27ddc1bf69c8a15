// From a configured database to a store.

import { openPostgres, withoutPassword } from './postgres.ts'
import { createSqlStore } from './sql-store.ts'
import { openSqlite } from './sqlite.ts'
import type { Store } from './store.ts'

export type DatabaseConfig =
  | { engine: 'sqlite'; file: string }
  | { engine: 'postgres'; url: string }

export function openStore(
  database: DatabaseConfig,
  onConnectionLost: (error: Error) => void = () => {},
): Store {
  return createSqlStore(
    database.engine === 'sqlite'
      ? openSqlite(database.file)
      : openPostgres({ url: database.url, onConnectionLost }),
  )
}

/** For people: which database this is, without its password. */
export function describeDatabase(database: DatabaseConfig): string {
  return database.engine === 'sqlite'
    ? `SQLite ${database.file}`
    : `PostgreSQL ${withoutPassword(database.url)}`
}
