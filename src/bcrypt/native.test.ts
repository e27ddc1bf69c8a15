import assert from 'node:assert/strict'
import { describe, type TestContext, test } from 'node:test'
import bcrypt from 'bcrypt'
import fc from 'fast-check'
import { checkInAllLanes, makeHashCases, NEVER_CANCELLED } from '../../test/login/hash-cases.ts'
import { openNative, owedRounds } from './native.ts'

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

describe('a digest', () => {
  test('is that of npm bcrypt', async () => {
    const hasher = await openNative(2)
    assert.equal(await checkInAllLanes(hasher, await makeHashCases(50, NEVER_CANCELLED)), 0)
  })

  test('cannot be cancelled', async t => {
    const { start } = await openRig(t)
    assert.equal(start(16, 16).cancel, null)
  })
})

describe('equal work', () => {
  const OWED: [cost: number, total: number, owed: number[]][] = [
    [12, 12, []],
    [11, 12, [11]],
    [10, 12, [10, 11]],
    [4, 8, [4, 5, 6, 7]],
    [13, 12, []],
    [15, 10, []],
  ]
  for (const [cost, total, owed] of OWED) {
    test(`a hash of cost ${cost} is followed by these to have cost ${total}: ${owed.join(', ') || 'none'}`, async t => {
      const { start, costs } = await openRig(t)
      await start(2 ** cost, 2 ** total).digest
      assert.deepEqual(costs, [cost, ...owed])
    })
  }

  test('a cheaper hash and those that follow it are as much work as one of the total', () => {
    const cost = fc.integer({ min: 4, max: 15 })
    fc.assert(
      fc.property(cost, cost, (stored, total) => {
        fc.pre(stored <= total)
        const work = [2 ** stored, ...owedRounds(2 ** stored, 2 ** total)]
        assert.equal(
          work.reduce((sum, rounds) => sum + rounds, 0),
          2 ** total,
        )
      }),
    )
  })
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

  test('tells how many rounds are left, and never less than none', async t => {
    const { start, load } = await openRig(t)
    load.roundMs = 0
    const hashing = start(16, 64)
    const left = [hashing.roundsLeft()]
    for (const ms of [10, 100]) {
      load.nowMs += ms
      left.push(hashing.roundsLeft())
    }
    assert.deepEqual(left, [64, 54, 0])
    await hashing.digest
  })
})
