// Migrations: what one reports while it runs, why it may not run at all, and the operations of the store.

/** A connection to PostgreSQL. What the role may not see of it is null. */
export type OtherConnection = {
  /** Null for a prepared transaction, which has no connection any more. */
  pid: number | null
  application: string
  state: string | null
  /** Since its transaction began or, without one, since its last statement. */
  seconds: number | null
}

export type MigrationProgress =
  /** Reported when a migration begins, and then every 10 seconds. */
  | { kind: 'applying'; migration: string; seconds: number }
  /** Other transactions hold the tables. They may have ended by now: then `blockedBy` is empty. */
  | { kind: 'waiting'; blockedBy: OtherConnection[] }

export type OnMigrationProgress = (progress: MigrationProgress) => void

export function describeProgress(progress: MigrationProgress): string {
  if (progress.kind === 'applying') {
    const soFar = progress.seconds > 0 ? `, for ${progress.seconds} s so far` : ''
    return `applying the migration ${progress.migration}${soFar}`
  }
  return `the migration waits for tables that are in use by ${describeConnections(progress.blockedBy)}`
}

export function describeConnections(connections: OtherConnection[]): string {
  if (connections.length === 0) return 'short transactions'
  const described = connections.map(({ pid, application, state, seconds }) => {
    const since = seconds === null ? '' : ` for ${seconds} s`
    return `pid ${pid ?? 'unknown'} (${application}, ${state ?? 'state unknown'}${since})`
  })
  return described.join(', ')
}

/** The tables cannot be used as they are. The message says what to do, without a period. */
export class UnusableTables extends Error {}

/** The tables are those of a newer version of the service. This version must not use them. */
export class NewerTables extends UnusableTables {
  constructor(migrations: string[]) {
    super(
      `its tables were made by a newer version (${migrations.join(', ')}): install that version, or restore a backup`,
    )
  }
}

type MigrationState = { name: string; appliedAt: Date | null }

export interface MigrationStore {
  /**
   * Applies the pending migrations, each in a transaction of its own, and returns the names of those that this call
   * applied. Several processes may call it at once. Reports nothing while it creates the tables of an empty database.
   * Throws NewerTables, and changes nothing, if a newer version has been here, and UnusableTables while instances
   * run that could not use the tables of a migration.
   */
  apply(onProgress?: OnMigrationProgress): Promise<string[]>
  /** All migrations, in order; several reads. `appliedAt` is null for a pending one. Throws NewerTables. */
  list(): Promise<MigrationState[]>
}
