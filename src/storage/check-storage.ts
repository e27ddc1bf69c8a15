// Checks what the service cannot set by itself in the database that it has opened.
import type { DatabaseConfig } from '../config/database.ts'
import type { MaintenanceStore } from '../domain/maintenance.ts'
import { findExposure } from '../files.ts'
import { type Finding, ok, warning } from '../finding.ts'
import { describeDatabase } from './open-store.ts'

export async function checkStorage(
  database: DatabaseConfig,
  maintenance: MaintenanceStore,
): Promise<Finding[]> {
  if (database.engine === 'sqlite') {
    const exposure = await findExposure(database.file)
    return [exposure ? warning('database', exposure) : ok('database', describeDatabase(database))]
  }
  const opened = ok('database', describeDatabase(database))
  return database.hasPooler ? [opened, await checkRole(maintenance)] : [opened]
}

/** Behind a pooler the service cannot set limits and plans for its connections: its role must have them. */
async function checkRole(maintenance: MaintenanceStore): Promise<Finding> {
  const missing = await maintenance.listMissingSettings()
  return missing.length === 0
    ? ok('role', 'has the time limits and plan settings')
    : warning(
        'role',
        `lacks settings that the pooler keeps the service from sending: run "${missing.join('; ')}", then let the pooler open new connections (PgBouncer: RECONNECT)`,
      )
}
