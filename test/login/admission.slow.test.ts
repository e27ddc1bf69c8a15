import { test } from 'node:test'
import { proveAdmission } from './admission-proof.ts'

const HISTORIES = 10_000

test('an admitted attempt ends in time, and none is shed while there is room', () =>
  proveAdmission(HISTORIES))
