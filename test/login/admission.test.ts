import { test } from 'node:test'
import { proveAdmission } from './admission-proof.ts'

/** admission.slow.test.ts plays more. */
const HISTORIES = 500

test('an admitted attempt ends in time, and none is shed while there is room', () =>
  proveAdmission(HISTORIES))
