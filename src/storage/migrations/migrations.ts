// All migrations, in order. A migration that was released is never changed.
import type { Kysely } from 'kysely'
import { type Migration, Migrator } from 'kysely/migration'
import type { EngineName } from '../sql/engine.ts'
import type { Schema } from '../sql/schema.ts'
import * as initial from './0001-initial.ts'
import * as sessions from './0002-sessions.ts'
import * as throttle from './0003-throttle.ts'
import * as deviceKey from './0004-device-key.ts'
import * as refresh from './0005-refresh.ts'
import * as administration from './0006-administration.ts'
import * as lastLogin from './0007-last-login.ts'
import * as refreshCaller from './0008-refresh-caller.ts'
import * as auditChecks from './0009-audit-checks.ts'
import * as temporaryPasswords from './0010-temporary.ts'
import * as loginCodes from './0011-login-codes.ts'
import * as endedSessions from './0012-ended-sessions.ts'
import * as forgetting from './0014-forgetting.ts'
import { COLUMN_TYPES } from './column-types.ts'

const MIGRATIONS = {
  '0001-initial': initial,
  '0002-sessions': sessions,
  '0003-throttle': throttle,
  '0004-device-key': deviceKey,
  '0005-refresh': refresh,
  '0006-administration': administration,
  '0007-last-login': lastLogin,
  '0008-refresh-caller': refreshCaller,
  '0009-audit-checks': auditChecks,
  '0010-temporary': temporaryPasswords,
  '0011-login-codes': loginCodes,
  '0012-ended-sessions': endedSessions,
  '0014-forgetting': forgetting,
}

/** Earlier ones change what instances of the previous version use (docs/decisions/0040). */
export const FIRST_BESIDE_OTHERS = '0007-last-login'

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
