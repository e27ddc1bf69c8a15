// Compares the digests of the lanes with those of npm bcrypt, in more cases than src/bcrypt/pool.test.ts.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { openLanes } from '../../src/bcrypt/pool.ts'
import { checkInAllLanes, makeHashCases, NEVER_CANCELLED } from '../hash-cases.ts'

test('5,000 hashes have the digests of npm bcrypt', async () => {
  const hasher = await openLanes(2, assert.ifError)
  const cases = await makeHashCases(5_000, NEVER_CANCELLED)
  assert.equal(await checkInAllLanes(hasher, cases), 0)
  await hasher.close()
})
