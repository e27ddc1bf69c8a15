// All migrations, applied in the order of their names. A migration that was released is never changed.
import type { Kysely } from 'kysely'
import { type Migration, Migrator } from 'kysely/migration'
import type { EngineName } from '../sql/engine.ts'
import type { Schema } from '../sql/schema.ts'
import * as initial from './0100-initial.ts'
import * as secondFactor from './0101-second-factor.ts'
import * as adminConsole from './0102-console.ts'
import { COLUMN_TYPES, type ColumnTypes } from './column-types.ts'

type Up = (db: Kysely<unknown>, column: ColumnTypes) => Promise<void>

/** Versions before 0.4 had others, whose names are before these. */
export const MIGRATIONS: Record<string, { up: Up }> = {
  '0100-initial': initial,
  '0101-second-factor': secondFactor,
  '0102-console': adminConsole,
}

export function createMigrator(engine: EngineName, db: Kysely<Schema>): Migrator {
  return new Migrator({
    db,
    provider: { getMigrations: async () => migrationsFor(engine) },
    // The order is that of the names. Kysely would compare it with times, of machines whose clocks may differ.
    allowUnorderedMigrations: true,
  })
}

function migrationsFor(engine: EngineName): Record<string, Migration> {
  return Object.fromEntries(
    Object.entries(MIGRATIONS).map(([name, { up }]) => [
      name,
      { up: (db: Kysely<unknown>) => up(db, COLUMN_TYPES[engine]) },
    ]),
  )
}
