import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { ThrottleScope } from '../../domain/attempt.ts'
import { type StateRow, stateOf, statesOf, toStoredDay } from './throttle-state.ts'

const NOW = new Date('2030-01-01T00:00:00Z')
const MINUTE_MS = 60_000
const WINDOW_MS = 15 * MINUTE_MS
const DAY_MS = 24 * 60 * MINUTE_MS
const LEASE_MS = MINUTE_MS

const PAIR: ThrottleScope = {
  ...{ name: 'pair', key: 'k', emailDigest: 'e', maxFailures: 5, maxDailyFailures: null },
}
const EMAIL: ThrottleScope = { ...PAIR, name: 'email', maxFailures: 20, maxDailyFailures: 100 }

const at = (ms: number) => new Date(NOW.getTime() + ms)
/** Ends are given in milliseconds from now. */
type Ends = { leaseMs?: number; windowMs?: number; dayMs?: number; blockMs?: number }
function rowOf(counts: Partial<StateRow>, ends: Ends = {}): StateRow {
  const { leaseMs = LEASE_MS, windowMs = WINDOW_MS, dayMs, blockMs } = ends
  return {
    ...{ key: 'k', failures: 0, daily_failures: 0, pending: 0, ...counts },
    lease_ends_at: at(leaseMs),
    window_ends_at: at(windowMs),
    day_ends_at: dayMs === undefined ? null : at(dayMs),
    blocked_until: blockMs === undefined ? null : at(blockMs),
  }
}

test('a scope without a row has no failures and its whole budget', () => {
  const nothing = {
    ...{ failures: 0, dailyFailures: 0, pending: 0 },
    ...{ blockedUntil: null, windowEndsAt: null, dayEndsAt: null },
  }
  const others = [rowOf({ key: 'another', failures: 3 })]
  assert.deepEqual(statesOf([PAIR, EMAIL], others, NOW), [
    { ...PAIR, ...nothing, budget: 5 },
    { ...EMAIL, ...nothing, budget: 20 },
  ])
  assert.equal(stateOf({ ...EMAIL, maxDailyFailures: 10 }, undefined, NOW).budget, 10)
})

test('failures count until the end of the window, or of the block if there is one', () => {
  const cases: [ends: Ends, failures: number, isBlocked: boolean][] = [
    [{ windowMs: 1 }, 3, false],
    [{ windowMs: 0 }, 0, false],
    // An end further away than two windows was written by a clock that was ahead.
    [{ windowMs: 2 * WINDOW_MS }, 3, false],
    [{ windowMs: 2 * WINDOW_MS + 1 }, 0, false],
    [{ windowMs: 0, blockMs: 1 }, 3, true],
    [{ windowMs: 1, blockMs: 0 }, 0, false],
    [{ windowMs: 0, blockMs: 2 * WINDOW_MS }, 3, true],
    [{ windowMs: 1, blockMs: 2 * WINDOW_MS + 1 }, 0, false],
  ]
  for (const [ends, failures, isBlocked] of cases) {
    const { windowMs = 0, blockMs = 0 } = ends
    assert.deepEqual(
      stateOf(PAIR, rowOf({ failures: 3, daily_failures: 9 }, ends), NOW),
      {
        ...PAIR,
        ...{ failures, pending: 0, budget: 5, dailyFailures: 0, dayEndsAt: null },
        windowEndsAt: failures > 0 ? at(windowMs) : null,
        blockedUntil: isBlocked ? at(blockMs) : null,
      },
      JSON.stringify(ends),
    )
  }
})

test('pending attempts are failures once their lease is over', () => {
  for (const [leaseMs, isPending] of [
    [1, true],
    [0, false],
    [2 * LEASE_MS, true],
    [2 * LEASE_MS + 1, false],
  ] as const) {
    const { failures, pending } = stateOf(
      PAIR,
      rowOf({ failures: 1, pending: 2 }, { leaseMs }),
      NOW,
    )
    assert.deepEqual([failures, pending], isPending ? [1, 2] : [3, 0], String(leaseMs))
  }
})

test('of the failures for the day, one is forgiven for every 15 minutes since they were counted', () => {
  const cases: [countedMs: number, stored: number, left: number, leftFromMs: number][] = [
    [0, 2, 2, 0],
    [-WINDOW_MS + 1, 2, 2, -WINDOW_MS + 1],
    [-WINDOW_MS, 2, 1, 0],
    [-WINDOW_MS, 1, 0, 0],
    [-9 * WINDOW_MS, 1, 0, 0],
    [-9 * WINDOW_MS - 1, 10, 1, -1],
    // Counted in the future, by a clock that was ahead by a day at most.
    [DAY_MS, 2, 2, DAY_MS],
    [DAY_MS + 1, 2, 0, 0],
  ]
  for (const [countedMs, stored, left, leftFromMs] of cases) {
    const row = rowOf({ daily_failures: stored }, { dayMs: countedMs + DAY_MS })
    const state = stateOf(EMAIL, row, NOW)
    const { dailyFailures, dayEndsAt } = state
    const end = left > 0 ? at(leftFromMs + left * WINDOW_MS) : null
    assert.deepEqual([dailyFailures, dayEndsAt], [left, end], `${stored} since ${countedMs}`)
    const storedDay = left > 0 ? at(leftFromMs + DAY_MS).toISOString() : null
    assert.equal(toStoredDay(state), storedDay)
  }
})

test('abandoned attempts count for the day, from now on if they are the first', () => {
  for (const [daily_failures, dayMs, left, countedMs] of [
    [0, undefined, 2, 0],
    [1, DAY_MS - 1, 3, -1],
    [1, DAY_MS - WINDOW_MS, 2, 0],
  ] as const) {
    const ends = { leaseMs: 0, ...(dayMs !== undefined && { dayMs }) }
    const { dailyFailures, dayEndsAt } = stateOf(
      EMAIL,
      rowOf({ daily_failures, pending: 2 }, ends),
      NOW,
    )
    assert.deepEqual([dailyFailures, dayEndsAt], [left, at(countedMs + left * WINDOW_MS)])
  }
})

test('what is left for the day limits the failures of a window, which has one at least', () => {
  for (const [failures, daily, budget] of [
    [0, 80, 20],
    [0, 81, 19],
    [3, 98, 5],
    [0, 99, 1],
    [0, 100, 1],
    [1, 150, 1],
  ] as const) {
    const row = rowOf({ failures, daily_failures: daily }, { dayMs: DAY_MS })
    assert.equal(stateOf(EMAIL, row, NOW).budget, budget, `${failures} and ${daily}`)
  }
})
