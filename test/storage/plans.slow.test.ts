import { describe } from 'node:test'
import { provePlans } from './plans-proof.ts'

/**
 * Without the settings of the service a table of this size is read whole. PLAN_ROWS=1000000 is the size at which users
 * would notice a wrong plan.
 */
const ROWS = Number(process.env.PLAN_ROWS ?? 20_000)

describe('plans on postgres', () => provePlans('postgres', ROWS))
