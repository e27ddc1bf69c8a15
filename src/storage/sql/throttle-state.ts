// The state of a scope at a moment. docs/throttle.md has the rules in a table; PostgreSQL has them in SQL too,
// in its reservation.
import type { Selectable } from 'kysely'
import type { ThrottleScope } from '../../domain/attempt.ts'
import { type ScopeState, WINDOW_MS } from '../../domain/throttle.ts'
import { formatTime, parseTime, parseTimeOrNull, type Schema } from './schema.ts'
import { COUNTED_DAY_MS, LEASE_MS } from './throttle-rows.ts'

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

/** One of the daily failures is forgiven for every 15 minutes since they were counted. */
function dayOf(scope: ThrottleScope, row: StateRow, lapsed: number, now: Date) {
  if (scope.maxDailyFailures === null) return { dailyFailures: 0, dayEndsAt: null }
  const countedMs = (parseTimeOrNull(row.day_ends_at)?.getTime() ?? 0) - COUNTED_DAY_MS
  const agoMs = now.getTime() - countedMs
  const forgiven = Math.max(0, Math.floor(agoMs / WINDOW_MS))
  const left = agoMs < -COUNTED_DAY_MS ? 0 : Math.max(0, row.daily_failures - forgiven)
  const dailyFailures = left + lapsed
  if (dailyFailures === 0) return { dailyFailures, dayEndsAt: null }
  const fromMs = left > 0 ? countedMs + forgiven * WINDOW_MS : now.getTime()
  return { dailyFailures, dayEndsAt: new Date(fromMs + dailyFailures * WINDOW_MS) }
}

/** The column `day_ends_at`: 24 hours after the moment at which the daily failures were counted. */
export function toStoredDay({ dailyFailures, dayEndsAt }: ScopeState): string | null {
  return dayEndsAt && formatTime(dayEndsAt, COUNTED_DAY_MS - dailyFailures * WINDOW_MS)
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
