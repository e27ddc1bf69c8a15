import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { forecast, threadFor } from './forecast.ts'

/** A hash of 1,000 rounds takes 100 ms alone, 120 ms beside another, and 150 ms beside two. */
const ROUND_MS = [0.1, 0.12, 0.15]
const work = (roundsLeft = 1_000) => ({ roundsLeft })
const thread = (...roundsLeft: number[]) => ({
  running: roundsLeft.map(work),
  roundMs: ROUND_MS,
  lanes: 3,
})

describe('a forecast', () => {
  /** The ends of the running hashes, then of those that wait. */
  function endsOf(threads: ReturnType<typeof thread>[], waiting: ReturnType<typeof work>[]) {
    const ends = forecast(threads, waiting)
    const all = [...threads.flatMap(({ running }) => running), ...waiting]
    return all.map(hash => Math.round(ends.get(hash) ?? Number.NaN))
  }

  test('makes a hash faster when its neighbour ends', () => {
    // 500 rounds at 0.12 ms, then 500 at 0.1 ms.
    assert.deepEqual(endsOf([thread(500, 1_000)], []), [60, 110])
  })

  test('knows the end of hashes that began when the thread had one lane more', () => {
    const shrunk = { ...thread(1_000, 1_000, 1_000), roundMs: ROUND_MS.slice(0, 2), lanes: 2 }
    // 1,000 rounds at 1.5 times 0.12 ms, then 1,000 at 0.1 ms.
    assert.deepEqual(endsOf([shrunk], [work()]), [180, 180, 180, 280])
  })
})

describe('the next hash', () => {
  const FULL = [500, 500, 500]
  const CASES: [what: string, threads: number[][], index: number | null][] = [
    ['takes the first of idle threads', [[], []], 0],
    ['takes the thread with fewer hashes', [[500], []], 1],
    ['takes a free lane', [FULL, [500, 500]], 1],
    ['waits if no lane is free', [FULL, FULL], null],
    ['waits for hashes that are about to end, to have fewer neighbours', [[500], [9, 9, 9]], null],
    ['takes an idle thread, even if hashes of another are about to end', [[9, 9, 9], []], 1],
    ['joins hashes that are about to end', [[500], [50, 50]], 1],
    ['counts hashes with more than 5 % of its rounds', [[500], [51, 51]], 0],
  ]
  for (const [what, running, index] of CASES) {
    test(what, () => {
      const threads = running.map(roundsLeft => thread(...roundsLeft))
      const chosen = threadFor(work(), threads)
      assert.equal(chosen && threads.indexOf(chosen), index)
    })
  }

  test('takes the faster thread', () => {
    const slow = { ...thread(), roundMs: ROUND_MS.map(ms => 3 * ms) }
    const fast = thread(500, 500)
    assert.equal(threadFor(work(), [slow, fast]), fast)
  })

  test('uses no more lanes than allowed', () => {
    const threads = [{ ...thread(500), lanes: 1 }]
    assert.equal(threadFor(work(), threads), null)
  })
})
