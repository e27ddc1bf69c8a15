// Applies the migrations one after the other, each in a transaction of its own, and lists them.
import { type Kysely, sql } from 'kysely'
import {
  type MigrationState,
  type MigrationStore,
  type OnMigrationProgress,
  UnusableDatabase,
} from '../../domain/migration.ts'
import { createMigrator, MIGRATIONS } from '../migrations/migrations.ts'
import type { Engine } from './engine.ts'
import type { Schema } from './schema.ts'

export function createMigrations(engine: Engine): MigrationStore {
  return {
    async apply(onProgress = () => {}) {
      const applied: string[] = []
      for (;;) {
        const name = await applyNext(engine, applied, onProgress)
        if (name === null) return applied
        applied.push(name)
      }
    },

    list: () => engine.retrying(() => listAll(engine.db)),
  }
}

/** Returns the name of the migration; null if none is pending. */
function applyNext(
  engine: Engine,
  applied: string[],
  onProgress: OnMigrationProgress,
): Promise<string | null> {
  let migration = ''
  const onWait = () => onProgress({ kind: 'waiting', migration })
  return engine.migrating(onWait, async (trx, lockTables) => {
    const all = await listAll(trx)
    const next = all.find(({ appliedAt }) => !appliedAt)
    if (!next) return null
    migration = next.name
    await lockTables()
    const [first] = all
    // A new database gets all of them, which is no update.
    const isNew = next === first || applied[0] === first?.name
    if (!isNew) onProgress({ kind: 'applying', migration })
    const { error } = await createMigrator(engine.name, trx).migrateUp()
    if (error) throw error
    return migration
  })
}

async function listAll(db: Kysely<Schema>): Promise<MigrationState[]> {
  const names = Object.keys(MIGRATIONS).toSorted()
  const applied = await listApplied(db)
  const unknown = [...applied.keys()].filter(name => !names.includes(name))
  if (unknown.some(name => name < (names[0] ?? ''))) {
    throw new UnusableDatabase(
      'its tables were made by version 0.3 or an earlier one: carry the users over to an empty database, with "users export --with-hashes" of that version and "users import" of this one',
    )
  }
  if (unknown.length > 0) {
    throw new UnusableDatabase(
      `its tables were made by a newer version (${unknown.join(', ')}): install that version, or restore a backup`,
    )
  }
  return names.map(name => ({ name, appliedAt: applied.get(name) ?? null }))
}

async function listApplied(db: Kysely<Schema>): Promise<Map<string, Date>> {
  const tables = await db.introspection.getTables({ withInternalKyselyTables: true })
  if (!tables.some(({ name }) => name === 'kysely_migration')) return new Map()
  const { rows } = await sql<{ name: string; timestamp: string }>`
    select name, timestamp from kysely_migration order by name`.execute(db)
  return new Map(rows.map(({ name, timestamp }) => [name, new Date(timestamp)]))
}
