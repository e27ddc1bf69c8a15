// The parts of the store: most of them are written once, for both engines.
import type { Store } from '../../domain/store.ts'
import { createAdminTokens } from './admin-token.ts'
import { createAttempts } from './attempts.ts'
import { createAudit } from './audit.ts'
import { createCodes } from './code.ts'
import { createDevices } from './device.ts'
import type { Engine } from './engine.ts'
import { createImport } from './import.ts'
import { createMaintenance } from './maintenance.ts'
import { createMigrations } from './migration.ts'
import { createRefreshTokens } from './refresh-token.ts'
import { createSecondFactors } from './second-factor.ts'
import { createSessions } from './session.ts'
import { createThrottleStore } from './throttle.ts'
import { createUsers } from './user.ts'

export function createStore(engine: Engine): Store {
  return {
    attempts: createAttempts(engine),
    users: createUsers(engine),
    secondFactors: createSecondFactors(engine),
    sessions: createSessions(engine),
    refreshTokens: createRefreshTokens(engine),
    codes: createCodes(engine),
    devices: createDevices(engine),
    throttle: createThrottleStore(engine),
    adminTokens: createAdminTokens(engine),
    audit: createAudit(engine),
    imports: createImport(engine),
    maintenance: createMaintenance(engine),
    migrations: createMigrations(engine),
    close: engine.close,
  }
}
