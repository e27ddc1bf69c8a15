import { test } from 'node:test'
import { casesOf } from '../support/proof.ts'
import { proveAdmission } from './admission-proof.ts'

const HISTORIES = casesOf(10_000)

test('an admitted attempt ends in time, and none is shed while there is room', () =>
  proveAdmission(HISTORIES))
