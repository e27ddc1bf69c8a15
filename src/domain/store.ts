// All operations on the database, one interface per consumer. A method is one atomic operation unless its
// comment says otherwise; connections, transactions and SQL stay inside `storage/`.
import type { AttemptStore } from './attempt.ts'
import type { AuditStore } from './audit.ts'
import type { ImportStore } from './import.ts'
import { type OnMigrationProgress, UnusableTables } from './migration.ts'
import type { SessionStore } from './session.ts'
import type { ThrottleStore } from './throttle.ts'
import type { UserStore } from './user.ts'

/** How many rows a purge removed, and whether it left none that are due. */
export type Purged = {
  isDone: boolean
  sessions: number
  refreshTokens: number
  devices: number
  throttleRows: number
}

/** The tables are those of a newer version of the service. This version must not use them. */
export class NewerTables extends UnusableTables {
  constructor(migrations: string[]) {
    super(
      `its tables were made by a newer version (${migrations.join(', ')}): install that version, or restore a backup`,
    )
  }
}

type MigrationState = { name: string; appliedAt: Date | null }

export interface MaintenanceStore {
  /** Removes a bounded number of expired rows, in several transactions; null while another instance does. */
  purge(now: Date): Promise<Purged | null>
  /** Throws unless the database accepts a write. */
  checkWritable(now: Date): Promise<void>
  /** The clock of the database server; null for SQLite, which has none of its own. */
  readClock(): Promise<Date | null>
  /** Connections to PostgreSQL, and operations that wait for one; null for SQLite. */
  countConnections(): Promise<{ used: number; idle: number; waiting: number } | null>
  /** SQL that sets what the database's role lacks. Empty unless a pooler is configured. */
  listMissingSettings(): Promise<string[]>
  /** The key that tags device cookies, 256 bits in hex. It is created with the tables and never changes. */
  readDeviceKey(): Promise<string>
  /**
   * Applies the pending migrations, each in a transaction of its own, and returns the names of those that this call
   * applied. Several processes may call it at once. Reports nothing while it creates the tables of an empty database.
   * Throws NewerTables, and changes nothing, if a newer version has been here, and UnusableTables while instances
   * run that could not use the tables of a migration.
   */
  migrate(onProgress?: OnMigrationProgress): Promise<string[]>
  /** All migrations, in order; several reads. `appliedAt` is null for a pending one. Throws NewerTables. */
  listMigrations(): Promise<MigrationState[]>
  close(): Promise<void>
}

export type Store = AttemptStore &
  SessionStore &
  UserStore &
  ThrottleStore &
  AuditStore &
  ImportStore &
  MaintenanceStore
