import { test } from 'node:test'
import { proveAdmission } from './admission-proof.ts'

/** admission.slow.test.ts plays more. */
const HISTORIES = 500

test('a hash ends in time, and no attempt is refused while a lane is free', () =>
  proveAdmission(HISTORIES))
