// Migrations: what one reports while it runs, why it may not run at all, and the operations of the store.

/** A migration begins, or waits for tables that other transactions use. */
export type MigrationProgress = { kind: 'applying' | 'waiting'; migration: string }

export type OnMigrationProgress = (progress: MigrationProgress) => void

export function describeProgress({ kind, migration }: MigrationProgress): string {
  return kind === 'applying'
    ? `applying the migration ${migration}`
    : `the migration ${migration} waits for tables that other transactions use`
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
   * Throws NewerTables, and changes nothing, if a newer version has been here.
   */
  apply(onProgress?: OnMigrationProgress): Promise<string[]>
  /** All migrations, in order; several reads. `appliedAt` is null for a pending one. Throws NewerTables. */
  list(): Promise<MigrationState[]>
}
