import { describe } from 'node:test'
import { proveSessionEnds } from './session-ends-proof.ts'

/** Several batches. `test/long` has more, and PostgreSQL. */
const SESSIONS = 1_500

describe(`a user with ${SESSIONS} sessions on sqlite`, () => proveSessionEnds('sqlite', SESSIONS))
