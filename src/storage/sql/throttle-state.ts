// The state of a scope at a moment. ARCHITECTURE.md has the rules in a table; PostgreSQL has them in SQL too,
// in its reservation.
import type { Selectable } from 'kysely'
import type { ThrottleScope } from '../../domain/attempt.ts'
import { type ScopeState, WINDOW_MS } from '../../domain/throttle.ts'
import { parseTime, parseTimeOrNull, type Schema } from './schema.ts'
import { DAY_MS, LEASE_MS } from './throttle-rows.ts'

export const STATE_COLUMNS = [
  ...(['key', 'failures', 'daily_failures', 'pending', 'lease_ends_at'] as const),
  ...(['window_ends_at', 'day_ends_at', 'blocked_until'] as const),
]

export type StateRow = Pick<Selectable<Schema['login_throttle']>, (typeof STATE_COLUMNS)[number]>

/** One state for each scope, with or without a row. */
export function statesOf(scopes: ThrottleScope[], rows: StateRow[], now: Date): ScopeState[] {
  return scopes.map(scope => {
    const row = rows.find(({ key }) => key === scope.key)
    return stateOf(scope, row, now)
  })
}

/** Windows and blocks may be over, and expired leases count as failures. */
export function stateOf(scope: ThrottleScope, row: StateRow | undefined, now: Date): ScopeState {
  if (!row) {
    const nothing = { failures: 0, dailyFailures: 0, pending: 0 }
    const never = { blockedUntil: null, windowEndsAt: null, dayEndsAt: null }
    return { ...scope, ...nothing, ...never, budget: budgetOf(scope, 0, 0) }
  }
  const windowEndsAt = parseTime(row.window_ends_at)
  const blockedUntil = parseTimeOrNull(row.blocked_until)
  const isBlocked = blockedUntil !== null && isInPlausibleFuture(blockedUntil, now, WINDOW_MS)
  const isOver =
    !isBlocked && (blockedUntil !== null || !isInPlausibleFuture(windowEndsAt, now, WINDOW_MS))
  const lapsed = isInPlausibleFuture(parseTime(row.lease_ends_at), now, LEASE_MS) ? 0 : row.pending
  const failures = (isOver ? 0 : row.failures) + lapsed
  const day = dayOf(scope, row, lapsed, now)
  return {
    ...scope,
    ...day,
    failures,
    pending: row.pending - lapsed,
    blockedUntil: isBlocked ? blockedUntil : null,
    windowEndsAt: isOver ? null : windowEndsAt,
    budget: budgetOf(scope, failures, day.dailyFailures),
  }
}

function dayOf(scope: ThrottleScope, row: StateRow, lapsed: number, now: Date) {
  if (scope.maxDailyFailures === null) return { dailyFailures: 0, dayEndsAt: null }
  const dayEndsAt = parseTimeOrNull(row.day_ends_at)
  if (dayEndsAt !== null && isInPlausibleFuture(dayEndsAt, now, DAY_MS)) {
    return { dailyFailures: row.daily_failures + lapsed, dayEndsAt }
  }
  const newEnd = new Date(now.getTime() + DAY_MS)
  return { dailyFailures: lapsed, dayEndsAt: lapsed > 0 ? newEnd : null }
}

/** When the daily failures are used up, each window allows one more. */
function budgetOf(scope: ThrottleScope, failures: number, dailyFailures: number): number {
  const { maxFailures, maxDailyFailures } = scope
  if (maxDailyFailures === null) return maxFailures
  return Math.max(1, Math.min(maxFailures, failures + maxDailyFailures - dailyFailures))
}

/** Ignores timestamps too far in the future: the clock was ahead, and has been set since. */
function isInPlausibleFuture(end: Date, now: Date, spanMs: number): boolean {
  const leftMs = end.getTime() - now.getTime()
  return leftMs > 0 && leftMs <= 2 * spanMs
}
