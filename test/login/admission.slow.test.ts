import { test } from 'node:test'
import { proveAdmission } from './admission-proof.ts'

const HISTORIES = 10_000

test('a hash ends in time, and no attempt is refused while a lane is free', () =>
  proveAdmission(HISTORIES))
