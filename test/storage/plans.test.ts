import { describe } from 'node:test'
import { provePlans } from './plans-proof.ts'

/** SQLite plans without statistics, so the number of rows changes nothing. plans.slow.test.ts has PostgreSQL. */
const ROWS = 1_000

describe('plans on sqlite', () => provePlans('sqlite', ROWS))
