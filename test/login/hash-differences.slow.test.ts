// Compares the digests of the lanes with those of npm bcrypt, in more cases than src/bcrypt/pool.test.ts.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { KERNEL_NAMES } from '../../src/bcrypt/lanes.js'
import { openLanes } from '../../src/bcrypt/pool.ts'
import { casesOf } from '../support/proof.ts'
import { checkInAllLanes, checkKernel, makeHashCases, NEVER_CANCELLED } from './hash-cases.ts'

const cases = await makeHashCases(casesOf(2_000), NEVER_CANCELLED)

test(`${cases.length} hashes have the digests of npm bcrypt`, async () => {
  const hasher = await openLanes(2, assert.ifError)
  assert.equal(await checkInAllLanes(hasher, cases), 0)
  await hasher.close()
})

for (const name of KERNEL_NAMES) {
  test(`${cases.length} hashes of the kernel ${name} have the digests of npm bcrypt`, () => {
    assert.equal(checkKernel(name, cases), cases.length)
  })
}
