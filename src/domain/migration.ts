// Migrations: what one reports while it runs, why it may not run at all, and the operations of the store.

/** A migration begins, or waits for tables that other transactions use. */
export type MigrationProgress = { kind: 'applying' | 'waiting'; migration: string }

export type OnMigrationProgress = (progress: MigrationProgress) => void

export function describeProgress({ kind, migration }: MigrationProgress): string {
  return kind === 'applying'
    ? `applying the migration ${migration}`
    : `the migration ${migration} waits for tables that other transactions use`
}

/** The database cannot be used as it is. The message says what to do, without a period. */
export class UnusableDatabase extends Error {
  /** A copy of this error from another thread has no class, but its properties. */
  readonly saysWhatToDo = true
}

export type MigrationState = { name: string; appliedAt: Date | null }

export interface MigrationStore {
  /**
   * Applies the pending migrations, each in a transaction of its own, and returns the names of those that this call
   * applied. Several processes may call it at once. Reports nothing while it creates the tables of an empty database.
   * Throws UnusableDatabase, and changes nothing, if the tables are those of a newer version, or of one before 0.4.
   */
  apply(onProgress?: OnMigrationProgress): Promise<string[]>
  /** All migrations, in order; several reads. `appliedAt` is null for a pending one. Throws UnusableDatabase, like `apply`. */
  list(): Promise<MigrationState[]>
}
