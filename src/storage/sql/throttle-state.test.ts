import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { ThrottleScope } from '../../domain/attempt.ts'
import { type StateRow, stateOf, statesOf } from './throttle-state.ts'

const NOW = new Date('2030-01-01T00:00:00Z')
const MINUTE_MS = 60_000
const WINDOW_MS = 15 * MINUTE_MS
const LEASE_MS = MINUTE_MS

const PAIR: ThrottleScope = {
  ...{ name: 'pair', key: 'k', emailDigest: 'e', maxFailures: 5, maxDailyFailures: null },
}
const EMAIL: ThrottleScope = { ...PAIR, name: 'email', maxFailures: 20, maxDailyFailures: 100 }

const at = (ms: number) => new Date(NOW.getTime() + ms)
/** Ends are given in milliseconds from now. */
type Ends = { leaseMs?: number; windowMs?: number; clearMs?: number; blockMs?: number }
function rowOf(counts: Partial<StateRow>, ends: Ends = {}): StateRow {
  const { leaseMs = LEASE_MS, windowMs = WINDOW_MS, clearMs, blockMs } = ends
  return {
    ...{ key: 'k', failures: 0, pending: 0, ...counts },
    lease_ends_at: at(leaseMs),
    window_ends_at: at(windowMs),
    blocked_until: blockMs === undefined ? null : at(blockMs),
    clears_at: clearMs === undefined ? null : at(clearMs),
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
  assert.equal(statesOf([{ ...EMAIL, maxDailyFailures: 10 }], [], NOW)[0]?.budget, 10)
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
      stateOf(PAIR, rowOf({ failures: 3 }, { clearMs: 1, ...ends }), NOW),
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

test('of the failures for the day, one is forgiven every 15 minutes until the last one', () => {
  for (const [clearMs, left] of [
    [0, 0],
    [-1, 0],
    [1, 1],
    [WINDOW_MS, 1],
    [WINDOW_MS + 1, 2],
    // An end further away than twice the budget was written by a clock that was ahead.
    [200 * WINDOW_MS, 200],
    [200 * WINDOW_MS + 1, 0],
  ] as const) {
    const { dailyFailures, dayEndsAt } = stateOf(EMAIL, rowOf({}, { clearMs }), NOW)
    assert.deepEqual([dailyFailures, dayEndsAt], [left, left > 0 ? at(clearMs) : null])
  }
})

test('abandoned attempts count for the day, from now on if no others do', () => {
  for (const [clearMs, left, dayEndMs] of [
    [-1, 2, 2 * WINDOW_MS],
    [1, 3, 2 * WINDOW_MS + 1],
    [200 * WINDOW_MS + 1, 2, 2 * WINDOW_MS],
  ] as const) {
    const row = rowOf({ pending: 2 }, { leaseMs: 0, clearMs })
    const { dailyFailures, dayEndsAt } = stateOf(EMAIL, row, NOW)
    assert.deepEqual([dailyFailures, dayEndsAt], [left, at(dayEndMs)])
    assert.equal(stateOf(PAIR, row, NOW).dayEndsAt, null)
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
    const row = rowOf({ failures }, { clearMs: daily * WINDOW_MS })
    assert.equal(stateOf(EMAIL, row, NOW).budget, budget, `${failures} and ${daily}`)
  }
})
