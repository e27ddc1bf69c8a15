// The state of the database, and the removal of expired rows.

/** How many rows a purge removed, and whether it left none that are due. */
export type Purged = {
  isDone: boolean
  sessions: number
  refreshTokens: number
  codes: number
  devices: number
  throttleRows: number
  auditEvents: number
}

export interface MaintenanceStore {
  /**
   * Removes a bounded number of expired rows, in several transactions; null while another instance does. Audit events are
   * removed after `auditDays`; 0, the default: never.
   */
  purge(now: Date, auditDays?: number): Promise<Purged | null>
  /**
   * Writes the SQLite file again, without traces of deleted rows: SQLite overwrites them, but not the copies that it left
   * behind when it moved a row to another page. Logins wait meanwhile. False for PostgreSQL, which vacuums by itself.
   */
  vacuum(): Promise<boolean>
  /** Throws unless the database accepts a write. */
  checkWritable(now: Date): Promise<void>
  /** The clock of the database server; null for SQLite, which has none of its own. */
  readClock(): Promise<Date | null>
  /** Connections to PostgreSQL, and operations that wait for one; null for SQLite. */
  countConnections(): Promise<{ used: number; idle: number; waiting: number } | null>
  /** SQL that sets what the database's role lacks. Empty unless a pooler is configured. */
  listMissingSettings(): Promise<string[]>
}
