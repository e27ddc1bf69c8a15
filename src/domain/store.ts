// All operations on the database, in parts. The interface of a part is in a file of this folder, and its code in the
// file of the same name in `storage/sql/`; that of attempts is in each engine. A method is one atomic operation unless
// its comment says otherwise; connections, transactions and SQL stay inside `storage/`.
import type { AdminTokenStore } from './admin-token.ts'
import type { AttemptStore } from './attempt.ts'
import type { AuditStore } from './audit.ts'
import type { CodeStore } from './code.ts'
import type { DeviceStore } from './device.ts'
import type { ImportStore } from './import.ts'
import type { MaintenanceStore } from './maintenance.ts'
import type { MigrationStore } from './migration.ts'
import type { RefreshTokenStore } from './refresh-token.ts'
import type { SecondFactorStore } from './second-factor.ts'
import type { SessionStore } from './session.ts'
import type { ThrottleStore } from './throttle.ts'
import type { UserStore } from './user.ts'

export type StoreParts = {
  attempts: AttemptStore
  users: UserStore
  secondFactors: SecondFactorStore
  sessions: SessionStore
  refreshTokens: RefreshTokenStore
  codes: CodeStore
  devices: DeviceStore
  throttle: ThrottleStore
  adminTokens: AdminTokenStore
  audit: AuditStore
  imports: ImportStore
  maintenance: MaintenanceStore
  migrations: MigrationStore
}

/** Every operation may throw it: it got no connection in time, although the database answered others. Nothing was done. */
export class DatabaseBusy extends Error {}

export type Store = StoreParts & { close(): Promise<void> }
