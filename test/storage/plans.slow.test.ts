import { describe } from 'node:test'
import { ENGINES } from '../support/engines.ts'
import { provePlans } from './plans-proof.ts'

/** PLAN_ROWS=1000000 is the size at which users would notice a wrong plan. */
const ROWS = Number(process.env.PLAN_ROWS ?? 50_000)

for (const engine of ENGINES) {
  describe(`plans on ${engine}`, () => provePlans(engine, ROWS))
}
