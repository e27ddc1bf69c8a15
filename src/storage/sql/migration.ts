// Applies the migrations one after the other, each in a transaction of its own, and lists them.
import { type Kysely, sql } from 'kysely'
import {
  type MigrationStore,
  NewerTables,
  type OnMigrationProgress,
} from '../../domain/migration.ts'
import { createMigrator } from '../migrations/migrations.ts'
import type { Engine } from './engine.ts'
import type { Schema } from './schema.ts'

export function createMigrations(engine: Engine): MigrationStore {
  return {
    async apply(onProgress = () => {}) {
      const applied: string[] = []
      for (;;) {
        const name = await applyNext(engine, onProgress)
        if (name === null) return applied
        applied.push(name)
      }
    },

    async list() {
      const migrations = await engine.retrying(() => listAll(engine, engine.db))
      return migrations.map(({ name, executedAt }) => ({ name, appliedAt: executedAt ?? null }))
    },
  }
}

/** Returns the name of the migration; null if none is pending. */
function applyNext(engine: Engine, onProgress: OnMigrationProgress): Promise<string | null> {
  let migration = ''
  const onWait = () => onProgress({ kind: 'waiting', migration })
  return engine.migrating(onWait, async (trx, lockTables) => {
    const all = await listAll(engine, trx)
    const next = all.find(({ executedAt }) => !executedAt)
    if (!next) return null
    migration = next.name
    await lockTables()
    if (next !== all[0]) onProgress({ kind: 'applying', migration })
    const { error } = await createMigrator(engine.name, trx).migrateUp()
    if (error) throw error
    return migration
  })
}

/** Throws if a newer version has applied migrations that this one does not know. */
async function listAll(engine: Engine, db: Kysely<Schema>) {
  const known = await createMigrator(engine.name, db).getMigrations()
  // Until the first migration there is no table of migrations.
  if (known.some(({ executedAt }) => executedAt)) {
    const names = known.map(({ name }) => name)
    const { rows } = await sql<{ name: string }>`select name from kysely_migration
      where name not in (${sql.join(names)}) order by name`.execute(db)
    if (rows.length > 0) throw new NewerTables(rows.map(({ name }) => name))
  }
  return known
}
