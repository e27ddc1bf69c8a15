import { describe } from 'node:test'
import { ENGINES } from './engines.ts'
import { proveSessionEnds } from './session-ends-proof.ts'

/** Several batches; `test/long` has more. */
const SESSIONS = 1_500

for (const engine of ENGINES) {
  describe(`a user with ${SESSIONS} sessions on ${engine}`, () =>
    proveSessionEnds(engine, SESSIONS))
}
