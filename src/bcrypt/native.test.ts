import assert from 'node:assert/strict'
import { describe, type TestContext, test } from 'node:test'
import bcrypt from 'bcrypt'
import { checkInAllLanes, makeHashCases, NEVER_CANCELLED } from '../../test/hashing/hash-cases.ts'
import { openNative } from './native.ts'

const SALT = Buffer.alloc(16)

/** A bcrypt that needs `roundMs` for a round, on a clock that only its hashes move, and records the costs. */
async function openRig(t: TestContext) {
  const load = { nowMs: 0, roundMs: 1 }
  const costs: number[] = []
  t.mock.method(performance, 'now', () => load.nowMs)
  t.mock.method(bcrypt, 'hash', async (_password: Buffer, setting: string) => {
    const cost = Number(setting.slice(4, 6))
    costs.push(cost)
    load.nowMs += load.roundMs * 2 ** cost
    return setting + '.'.repeat(31)
  })
  const hasher = await openNative(1)
  costs.length = 0
  const start = (rounds: number, totalRounds: number) =>
    hasher.start(0, { password: Buffer.from('a'), salt: SALT, rounds, totalRounds })
  return { hasher, start, load, costs }
}

test('a digest is that of npm bcrypt', async () => {
  const hasher = await openNative(2)
  assert.equal(await checkInAllLanes(hasher, 1, await makeHashCases(50, NEVER_CANCELLED)), 0)
})

test('a cheaper hash and those that follow it are as much work as one of the total', async t => {
  const { start, costs } = await openRig(t)
  for (let stored = 4; stored <= 15; stored++) {
    for (let total = 4; total <= 15; total++) {
      costs.length = 0
      await start(2 ** stored, 2 ** total).digest
      const work = costs.reduce((sum, cost) => sum + 2 ** cost, 0)
      assert.deepEqual([costs[0], work], [stored, 2 ** Math.max(stored, total)])
    }
  }
})

describe('the time of a round', () => {
  test('is measured at the start and falls by half of the difference', async t => {
    const { hasher, start, load } = await openRig(t)
    assert.deepEqual(hasher.roundMs(0), [1])
    load.roundMs = 0.5
    await start(16, 16).digest
    assert.deepEqual(hasher.roundMs(0), [0.75])
  })

  test('rises by at most 5 % per job', async t => {
    const { hasher, start, load } = await openRig(t)
    load.roundMs = 8
    await start(16, 64).digest
    assert.deepEqual(hasher.roundMs(0), [1.05])
    load.roundMs = 1.0625
    await start(16, 64).digest
    assert.deepEqual(hasher.roundMs(0), [1.0625])
  })

  test('tells how many rounds are left, and never less than none, of a hash that cannot be cancelled', async t => {
    const { start, load } = await openRig(t)
    load.roundMs = 0
    const hashing = start(16, 64)
    const left = [hashing.roundsLeft()]
    for (const ms of [10, 100]) {
      load.nowMs += ms
      left.push(hashing.roundsLeft())
    }
    assert.deepEqual(left, [64, 54, 0])
    assert.equal(hashing.cancel, null)
    await hashing.digest
  })
})
