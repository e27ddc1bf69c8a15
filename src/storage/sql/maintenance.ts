// What keeps the database in order: migrations, the purge, and whether it takes a write at all.
import type { Kysely } from 'kysely'
import { Migrator } from 'kysely/migration'
import type { MaintenanceStore } from '../../domain/store.ts'
import { migrationsFor } from '../migrations/migrations.ts'
import type { Engine } from './engine.ts'
import { createPurge } from './purge.ts'
import type { Schema } from './schema.ts'
import { write } from './transact.ts'
import { toText } from './values.ts'

type Maintenance = Omit<MaintenanceStore, 'readDeviceKey' | 'close'>

export function createMaintenance(engine: Engine): Maintenance {
  const { db } = engine
  return {
    purge: createPurge(engine),

    async checkWritable(now) {
      const checked = { checked_at: toText(now) }
      await write(engine, db =>
        db
          .insertInto('readiness')
          .values({ id: 1, ...checked })
          .onConflict(conflict => conflict.column('id').doUpdateSet(checked))
          .execute(),
      )
    },

    readClock: engine.readClock,

    async migrate() {
      return engine.migrating(async db => {
        const { error, results } = await migratorOf(engine, db).migrateToLatest()
        if (error) throw error
        return results?.map(result => result.migrationName) ?? []
      })
    },

    async listMigrations() {
      const migrations = await engine.retrying(() => migratorOf(engine, db).getMigrations())
      return migrations.map(({ name, executedAt }) => ({ name, appliedAt: executedAt ?? null }))
    },
  }
}

function migratorOf({ name }: Engine, db: Kysely<Schema>): Migrator {
  return new Migrator({ db, provider: { getMigrations: async () => migrationsFor(name) } })
}
