import { describe } from 'node:test'
import { ENGINES } from '../engines.ts'
import { proveSessionEnds } from '../session-ends-proof.ts'

/** More than one statement could end within the time limit of the service. */
const SESSIONS = 20_000

for (const engine of ENGINES) {
  describe(`a user with ${SESSIONS} sessions on ${engine}`, () =>
    proveSessionEnds(engine, SESSIONS))
}
