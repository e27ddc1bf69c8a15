import { describe } from 'node:test'
import { ENGINES } from './engines.ts'
import { proveSessionEnds } from './session-ends-proof.ts'

/** Ten batches; `test/long` has more. */
const SESSIONS = 5_000

for (const engine of ENGINES) {
  describe(`a user with ${SESSIONS} sessions on ${engine}`, () =>
    proveSessionEnds(engine, SESSIONS))
}
