// Compares the digests of each kernel with those of npm bcrypt, in more cases than src/bcrypt/pool.test.ts.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { KERNEL_NAMES } from '../../src/bcrypt/lanes.js'
import { casesOf } from '../support/proof.ts'
import { checkKernel, makeHashCases, NEVER_CANCELLED } from './hash-cases.ts'

const cases = await makeHashCases(casesOf(2_000), NEVER_CANCELLED)

for (const name of KERNEL_NAMES) {
  test(`${cases.length} hashes of the kernel ${name} have the digests of npm bcrypt`, () => {
    assert.equal(checkKernel(name, cases), cases.length)
  })
}
