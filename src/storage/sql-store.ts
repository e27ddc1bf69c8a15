// The one implementation of the store, on whichever engine it is given.
import { createDevices } from './devices-sql.ts'
import type { Engine } from './engine.ts'
import { createRefreshTokens } from './refresh-tokens-sql.ts'
import { createSessions } from './sessions-sql.ts'
import type { Store } from './store.ts'
import { createUpkeep } from './upkeep-sql.ts'
import { createUsers } from './users-sql.ts'

export function createSqlStore(engine: Engine): Store {
  return {
    ...engine.attempts,
    ...createUsers(engine),
    ...createSessions(engine),
    ...createRefreshTokens(engine),
    ...createDevices(engine),
    ...createUpkeep(engine),
    close: engine.close,
  }
}
