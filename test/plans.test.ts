import { describe } from 'node:test'
import type { EngineName } from '../src/storage/sql/engine.ts'
import { ENGINES } from './engines.ts'
import { provePlans } from './plans-proof.ts'

/**
 * SQLite plans without statistics, so the number of rows changes nothing. PostgreSQL needs tables that are
 * large enough for its planner to prefer an index; with 10,000 rows it does not. `test/long` has more rows,
 * and PLAN_ROWS=1000000 is the size at which users would notice a wrong plan.
 */
const ROWS: Record<EngineName, number> = { sqlite: 1_000, postgres: 30_000 }

for (const engine of ENGINES) {
  describe(`plans on ${engine}`, () =>
    provePlans(engine, Number(process.env.PLAN_ROWS ?? ROWS[engine])))
}
