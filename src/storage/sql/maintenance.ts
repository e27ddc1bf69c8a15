// Maintenance: the purge, and the check that the database accepts a write.
import type { MaintenanceStore } from '../../domain/maintenance.ts'
import { type Engine, write } from './engine.ts'
import { createPurge } from './purge.ts'
import { formatTime } from './schema.ts'

export function createMaintenance(engine: Engine): MaintenanceStore {
  return {
    ...engine.maintenance,
    purge: createPurge(engine),

    async checkWritable(now) {
      await write(engine, db =>
        db
          .updateTable('service')
          .set({ checked_at: formatTime(now) })
          .execute(),
      )
    },
  }
}
