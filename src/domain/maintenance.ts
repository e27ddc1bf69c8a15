// The state of the database, and the removal of expired rows.

/** The rows that a purge removes, to count from. */
export const NONE_REMOVED = {
  sessions: 0,
  refreshTokens: 0,
  codes: 0,
  devices: 0,
  throttleRows: 0,
  auditEvents: 0,
}

export type Removed = typeof NONE_REMOVED

/** How many rows a purge removed, and whether it left none that are due. */
export type Purged = Removed & { isDone: boolean }

export function addRemoved(sum: Removed, rows: Partial<Removed>): void {
  for (const name of Object.keys(sum) as (keyof Removed)[]) sum[name] += rows[name] ?? 0
}

export interface MaintenanceStore {
  /**
   * Removes a bounded number of expired rows, in several transactions; null while another instance does. Audit events are
   * removed after `auditDays`; 0, the default: never.
   */
  purge(now: Date, auditDays?: number): Promise<Purged | null>
  /** Throws unless the database accepts a write. */
  checkWritable(now: Date): Promise<void>
  /** The clock of the database server; null for SQLite, which has none of its own. */
  readClock(): Promise<Date | null>
  /** Connections to PostgreSQL, and operations that wait for one; null for SQLite. */
  countConnections(): Promise<{ used: number; idle: number; waiting: number } | null>
  /** The most connections that PostgreSQL allows this role; null for SQLite and behind a pooler. */
  readConnectionLimit(): Promise<number | null>
}
