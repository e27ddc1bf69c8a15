// Opens the configured database as a Store.
import { type DatabaseConfig, sourceOf } from '../config/database.ts'
import { describeUrl } from '../config/postgres-hosts.ts'
import type { Store } from '../domain/store.ts'
import { findExposure, messageOf } from '../system/files.ts'
import { type Finding, ok, warning } from '../system/finding.ts'
import { type Engine, SERVICE_OPERATION_TIMEOUT_MS } from './sql/engine.ts'

export async function openStore(
  database: DatabaseConfig,
  onConnectionLost: (error: Error) => void = () => {},
  operationTimeoutMs = SERVICE_OPERATION_TIMEOUT_MS,
): Promise<Store> {
  // With SQLite, the service needs the statements only in the thread of the database. They take long to load.
  const { createStore } = await import('./sql/store.ts')
  return createStore(await openEngine(database, onConnectionLost, operationTimeoutMs))
}

/** SQLite is used in a thread of its own, because it blocks the thread that it runs in. */
export async function openServiceStore(
  database: DatabaseConfig,
  onConnectionLost: (error: Error) => void,
): Promise<Store> {
  if (database.engine === 'postgres') return openStore(database, onConnectionLost)
  const { openInThread } = await import('./sqlite/thread.ts')
  return openInThread(database.file, onConnectionLost)
}

/** Loads only the driver of this engine. */
async function openEngine(
  database: DatabaseConfig,
  onConnectionLost: (error: Error) => void,
  operationTimeoutMs: number,
): Promise<Engine> {
  if (database.engine === 'sqlite') {
    const { openSqlite } = await import('./sqlite/engine.ts')
    return openSqlite(database.file, operationTimeoutMs)
  }
  const { openPostgres } = await import('./postgres/engine.ts')
  return openPostgres({ ...database, onConnectionLost, operationTimeoutMs })
}

/** Names the database in messages, without its password. */
export function describeDatabase(database: DatabaseConfig): string {
  if (database.engine === 'sqlite') return `SQLite ${database.file}`
  return `PostgreSQL ${describeUrl(database.url)}`
}

/** Checks what the service cannot set by itself in the database that it has opened. */
export async function checkStorage(database: DatabaseConfig): Promise<Finding> {
  const exposure = database.engine === 'sqlite' ? await findExposure(database.file) : null
  return exposure ? warning('database', exposure) : ok('database', describeDatabase(database))
}

/** What Node says of a certificate that no CA that it knows has signed. */
const UNKNOWN_CA = /self-signed certificate|unable to (verify|get (local )?issuer)/

/** Why the database could not be used, and what to do. */
export function explainDatabase(database: DatabaseConfig, error: unknown): string {
  const text = `${describeDatabase(database)} cannot be used: ${messageOf(error)}`
  if (Object(error).saysWhatToDo) return text
  if (UNKNOWN_CA.test(text)) {
    return `${text}. If its CA is your own, add sslrootcert=FILE with the certificate of the CA to DATABASE_URL`
  }
  return `${text}. Check that it exists, that you have access to it, and that ${sourceOf(database)} is right`
}
