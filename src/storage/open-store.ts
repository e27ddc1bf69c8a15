// Opens the configured database as a Store: most of it is written once, in `sql/`, for both engines.
import { type DatabaseConfig, sourceOf } from '../config/database.ts'
import { describeUrl } from '../config/postgres-hosts.ts'
import { UnusableTables } from '../domain/migration.ts'
import type { Store } from '../domain/store.ts'
import { messageOf } from '../files.ts'
import { createAudit } from './sql/audit.ts'
import { createCodes } from './sql/code.ts'
import { createDevices } from './sql/device.ts'
import { type Engine, SERVICE_OPERATION_TIMEOUT_MS } from './sql/engine.ts'
import { createImport } from './sql/import.ts'
import { createMaintenance } from './sql/maintenance.ts'
import { createMigrations } from './sql/migration.ts'
import { createRefreshTokens } from './sql/refresh-token.ts'
import { createSessions } from './sql/session.ts'
import { createThrottleStore } from './sql/throttle.ts'
import { createUsers } from './sql/user.ts'

export async function openStore(
  database: DatabaseConfig,
  onConnectionLost: (error: Error) => void = () => {},
  operationTimeoutMs = SERVICE_OPERATION_TIMEOUT_MS,
): Promise<Store> {
  const engine = await openEngine(database, onConnectionLost, operationTimeoutMs)
  return {
    attempts: engine.attempts,
    users: createUsers(engine),
    sessions: createSessions(engine),
    refreshTokens: createRefreshTokens(engine),
    codes: createCodes(engine),
    devices: createDevices(engine),
    throttle: createThrottleStore(engine),
    audit: createAudit(engine),
    imports: createImport(engine),
    maintenance: createMaintenance(engine),
    migrations: createMigrations(engine),
    close: engine.close,
  }
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

/** Why the database could not be used, and what to do. */
export function explainDatabase(database: DatabaseConfig, error: unknown): string {
  const text = `${describeDatabase(database)} cannot be used: ${messageOf(error)}`
  if (error instanceof UnusableTables) return text
  return `${text}. Check that it exists, that you have access to it, and that ${sourceOf(database)} is right`
}
