import { describe } from 'node:test'
import { ENGINES } from '../engines.ts'
import { provePlans } from '../plans-proof.ts'

const ROWS = 100_000

for (const engine of ENGINES) {
  describe(`plans on ${engine}`, () => provePlans(engine, ROWS))
}
