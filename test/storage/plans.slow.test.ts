import { describe } from 'node:test'
import { ENGINES } from '../support/engines.ts'
import { provePlans } from './plans-proof.ts'

/** PLAN_ROWS=1000000 is the size at which users would notice a wrong plan. */
const ROWS = Number(process.env.PLAN_ROWS ?? 20_000)
/** Without the settings of the service such a table is read whole. */
const YOUNG_ROWS = 20_000

for (const engine of ENGINES) {
  describe(`plans on ${engine}`, () => provePlans(engine, ROWS))
}
describe('plans on postgres, before its first analyze', () =>
  provePlans('postgres', YOUNG_ROWS, true))
