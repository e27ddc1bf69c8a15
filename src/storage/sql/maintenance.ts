// Maintenance: migrations, the purge, and the check that the database accepts a write.
import { type Kysely, sql } from 'kysely'
import { type MaintenanceStore, NewerTables } from '../../domain/store.ts'
import { createMigrator } from '../migrations/migrations.ts'
import { type Engine, write } from './engine.ts'
import { createPurge } from './purge.ts'
import { formatTime, type Schema } from './schema.ts'

type Maintenance = Omit<MaintenanceStore, 'readDeviceKey' | 'close'>

export function createMaintenance(engine: Engine): Maintenance {
  const { db } = engine
  return {
    purge: createPurge(engine),

    async checkWritable(now) {
      const checked = { checked_at: formatTime(now) }
      await write(engine, db =>
        db
          .insertInto('readiness')
          .values({ id: 1, ...checked })
          .onConflict(conflict => conflict.column('id').doUpdateSet(checked))
          .execute(),
      )
    },

    countConnections: async () => engine.countConnections(),
    readClock: engine.readClock,
    listMissingSettings: engine.listMissingSettings,

    async migrate() {
      return engine.migrating(async db => {
        await listAll(engine, db)
        const { error, results } = await createMigrator(engine.name, db).migrateToLatest()
        if (error) throw error
        return results?.map(result => result.migrationName) ?? []
      })
    },

    async listMigrations() {
      const migrations = await engine.retrying(() => listAll(engine, db))
      return migrations.map(({ name, executedAt }) => ({ name, appliedAt: executedAt ?? null }))
    },
  }
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
