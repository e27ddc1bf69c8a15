import { describe } from 'node:test'
import { provePlans } from './plans-proof.ts'

/** SQLite plans without statistics, so the number of rows changes nothing. */
const ROWS = 1_000
/** Without the settings of the service such a table is read whole. plans.slow.test.ts has larger tables. */
const YOUNG_ROWS = 20_000

describe('plans on sqlite', () => provePlans('sqlite', ROWS))
describe('plans on postgres, before its first analyze', () =>
  provePlans('postgres', YOUNG_ROWS, true))
