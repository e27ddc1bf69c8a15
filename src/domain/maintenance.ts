// The state of the database, and the removal of expired rows.

/** How many rows a purge removed, and whether it left none that are due. */
export type Purged = {
  isDone: boolean
  sessions: number
  refreshTokens: number
  codes: number
  devices: number
  throttleRows: number
}

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
}
