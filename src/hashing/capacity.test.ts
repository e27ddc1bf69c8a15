import assert from 'node:assert/strict'
import { test } from 'node:test'
import { simulateHasher } from '../../test/hashing/simulated-hasher.ts'
import { capacityOf } from './capacity.ts'

const LIMITS = { cost: 10, loginTimeMs: 1_000 }

/** How long hashes take: one alone, two beside each other, and so on. A margin of 120 ms is added. */
const CASES: [what: string, threads: number, hashMs: number[], hashes: number, logins: number][] = [
  ['two hashes beside each other that are just in time', 1, [500, 880], 2, 2],
  ['hashes that are too late beside each other', 1, [440, 881], 1, 2],
  ['hashes that are too late even alone', 2, [881, 900], 2, 0],
  ['fast hashes: at most 100 logins are counted', 1, [1, 1, 1], 3, 100],
  ['fast hashes on many threads: one login more is counted', 40, [1, 1, 1], 120, 121],
]
for (const [what, threads, hashMs, hashes, logins] of CASES) {
  test(`the capacity for ${what}`, () => {
    const roundMs = hashMs.map(ms => ms / 2 ** LIMITS.cost)
    const { hasher } = simulateHasher({ threads, roundMs })
    assert.deepEqual(capacityOf(hasher, LIMITS), { hashes, logins })
  })
}
