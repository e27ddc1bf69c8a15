// Checks what the service cannot set by itself in the database that it has opened.
import type { DatabaseConfig } from '../config/database.ts'
import { findExposure } from '../system/files.ts'
import { type Finding, ok, warning } from '../system/finding.ts'
import { describeDatabase } from './open-store.ts'

export async function checkStorage(database: DatabaseConfig): Promise<Finding> {
  const exposure = database.engine === 'sqlite' ? await findExposure(database.file) : null
  return exposure ? warning('database', exposure) : ok('database', describeDatabase(database))
}
