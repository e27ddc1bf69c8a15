// Maintenance: migrations, the purge, and the check that the database accepts a write.
import type { MaintenanceStore } from '../../domain/store.ts'
import { createMigrator } from '../migrations/migrations.ts'
import { type Engine, write } from './engine.ts'
import { createPurge } from './purge.ts'
import { formatTime } from './schema.ts'

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
        const { error, results } = await createMigrator(engine.name, db).migrateToLatest()
        if (error) throw error
        return results?.map(result => result.migrationName) ?? []
      })
    },

    async listMigrations() {
      const migrations = await engine.retrying(() =>
        createMigrator(engine.name, db).getMigrations(),
      )
      return migrations.map(({ name, executedAt }) => ({ name, appliedAt: executedAt ?? null }))
    },
  }
}
