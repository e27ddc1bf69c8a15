// The state of a scope at a moment. docs/throttle.md has the rules in a table; PostgreSQL has them in SQL too,
// in its reservation.
import type { Selectable } from 'kysely'
import type { ThrottleScope } from '../../domain/attempt.ts'
import { type ScopeState, WINDOW_MS } from '../../domain/throttle.ts'
import { parseTime, parseTimeOrNull, type Schema } from './schema.ts'
import { dailyFailuresOf, LEASE_MS } from './throttle-rows.ts'

export const STATE_COLUMNS = [
  ...(['key', 'failures', 'pending', 'lease_ends_at'] as const),
  ...(['window_ends_at', 'blocked_until', 'clears_at'] as const),
]

export type StateRow = Pick<Selectable<Schema['login_throttle']>, (typeof STATE_COLUMNS)[number]>

const NO_ROW: Omit<StateRow, 'key'> = {
  ...{ failures: 0, pending: 0, lease_ends_at: new Date(0), window_ends_at: new Date(0) },
  ...{ blocked_until: null, clears_at: null },
}

/** One state for each scope, with or without a row. */
export function statesOf(scopes: ThrottleScope[], rows: StateRow[], now: Date): ScopeState[] {
  const found = new Map(rows.map(row => [row.key, row]))
  return scopes.map(scope => stateOf(scope, found.get(scope.key) ?? NO_ROW, now))
}

/** Windows and blocks may be over, and expired leases count as failures. */
export function stateOf(scope: ThrottleScope, row: Omit<StateRow, 'key'>, now: Date): ScopeState {
  const { maxFailures, maxDailyFailures } = scope
  const isOver = !runningEnd(row.blocked_until ?? row.window_ends_at, WINDOW_MS, now)
  const lapsed = runningEnd(row.lease_ends_at, LEASE_MS, now) ? 0 : row.pending
  const failures = (isOver ? 0 : row.failures) + lapsed

  const clearsAt = runningEnd(row.clears_at, (maxDailyFailures ?? 0) * WINDOW_MS, now)
  const isLater = lapsed > 0 && maxDailyFailures !== null
  const dayEndsAt = isLater ? new Date((clearsAt ?? now).getTime() + lapsed * WINDOW_MS) : clearsAt
  const dailyFailures = dailyFailuresOf(dayEndsAt, now)
  const leftForTheDay = (maxDailyFailures ?? Infinity) - dailyFailures
  return {
    ...scope,
    failures,
    dailyFailures,
    pending: row.pending - lapsed,
    blockedUntil: runningEnd(row.blocked_until, WINDOW_MS, now),
    windowEndsAt: isOver ? null : parseTime(row.window_ends_at),
    dayEndsAt,
    // When the failures for the day are used up, each window allows one more.
    budget: Math.max(1, Math.min(maxFailures, failures + leftForTheDay)),
  }
}

/** Null if it is over, or too far in the future: the clock was ahead, and has been set since. */
function runningEnd(stored: Date | string | null, lengthMs: number, now: Date): Date | null {
  const end = parseTimeOrNull(stored)
  const leftMs = end ? end.getTime() - now.getTime() : 0
  return leftMs > 0 && leftMs <= 2 * lengthMs ? end : null
}
