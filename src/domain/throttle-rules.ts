// The rules of the throttle: what each event makes of the rows of an attempt's scopes. docs/throttle.md has them in a
// table. Both engines lock the rows, call these functions and store the result.
import type { ScopeName, ThrottleScope } from './attempt.ts'
import { type ScopeState, WINDOW_MS } from './throttle.ts'

/** Longer than any attempt takes. A lease ends only if the process or the database failed meanwhile. */
export const LEASE_MS = 60_000

/** What is stored of a scope. */
export type ScopeRow = Pick<ThrottleScope, 'key' | 'name' | 'emailDigest'> & {
  failures: number
  pending: number
  leaseEndsAt: Date
  windowEndsAt: Date
  blockedUntil: Date | null
  /** Of an email: when the last of its failures for the day is forgiven. */
  clearsAt: Date | null
  /** From this moment on a purge removes the row. */
  expiresAt: Date
}

/** `changed`: the rows to store, with those of scopes that had none. */
export type Verdict =
  | { kind: 'admitted'; changed: ScopeRow[] }
  /** `key`: of the first scope whose failures are all reserved; it allows so many pending attempts. */
  | { kind: 'busy'; key: string; capacity: number }
  /** `scope`: the one whose block ends last. `blocksEmail`: this attempt is the one that blocks the email. */
  | {
      kind: 'blocked'
      scope: ScopeName
      blockedUntil: Date
      blocksEmail: boolean
      changed: ScopeRow[]
    }

export function reserve(scopes: ThrottleScope[], rows: ScopeRow[], now: Date): Verdict {
  const current = scopes.map(scope => {
    const row = rowOf(scope, rows)
    return { row, state: stateOf(scope, row, now) }
  })
  const windowEnd = after(now, WINDOW_MS)

  const blocking = current.filter(
    ({ state }) => state.blockedUntil || state.failures >= state.budget,
  )
  const [longest] = blocking
    .map(({ state }) => ({ scope: state.name, blockedUntil: state.blockedUntil ?? windowEnd }))
    .toSorted((a, b) => b.blockedUntil.getTime() - a.blockedUntil.getTime())
  if (longest) {
    const spent = blocking.filter(({ state }) => !state.blockedUntil)
    return {
      ...{ kind: 'blocked', ...longest },
      blocksEmail: spent.some(({ state }) => state.name === 'email'),
      changed: spent.map(({ row, state }) => ({
        ...counted(row, state, now),
        blockedUntil: windowEnd,
      })),
    }
  }

  const full = current.find(({ state }) => state.failures + state.pending >= state.budget)?.state
  if (full) return { kind: 'busy', key: full.key, capacity: full.budget - full.failures }

  return {
    kind: 'admitted',
    changed: current.map(({ row, state }) => ({
      ...counted(row, state, now),
      pending: state.pending + 1,
      leaseEndsAt: after(now, LEASE_MS),
      windowEndsAt: state.windowEndsAt ?? windowEnd,
      blockedUntil: null,
    })),
  }
}

export function release(row: ScopeRow): ScopeRow {
  return { ...row, pending: Math.max(0, row.pending - 1) }
}

/** A right password clears the failures of its pair or device only. */
export function pass(row: ScopeRow): ScopeRow {
  const isCleared = row.name === 'pair' || row.name === 'device'
  return { ...release(row), failures: isCleared ? 0 : row.failures }
}

export function fail(row: ScopeRow, now: Date): ScopeRow {
  const isOver = row.windowEndsAt <= now
  const windowEnd = after(now, WINDOW_MS)
  const clearsAt =
    row.name === 'email' ? latest(after(row.clearsAt ?? now, WINDOW_MS), windowEnd) : null
  return {
    ...release(row),
    failures: isOver ? 1 : row.failures + 1,
    windowEndsAt: isOver || row.failures === 0 ? windowEnd : row.windowEndsAt,
    clearsAt,
    expiresAt: latest(expiryAt(now), clearsAt),
  }
}

/** What an unlock or a clear makes of the rows, and what it cleared; null if nothing was counted. */
export function clearFailures(rows: ScopeRow[], now: Date) {
  const counted = rows.filter(row => row.failures > 0 || row.clearsAt || row.blockedUntil)
  if (counted.length === 0) return null
  let failures = 0
  let blockedUntil: Date | null = null
  for (const row of counted) {
    failures = Math.max(failures, row.failures, dailyFailuresAt(row.clearsAt, now))
    if (row.blockedUntil) blockedUntil = latest(row.blockedUntil, blockedUntil)
  }
  const changed = counted.map(row => ({ ...row, failures: 0, clearsAt: null, blockedUntil: null }))
  return { changed, failures, blockedUntil }
}

/** The state of a scope at a moment: what is over does not count, and an ended lease is a failure. */
export function stateOf(scope: ThrottleScope, row: ScopeRow, now: Date): ScopeState {
  const { maxFailures, maxDailyFailures } = scope
  const isOver = !runningEnd(row.blockedUntil ?? row.windowEndsAt, WINDOW_MS, now)
  const lapsed = runningEnd(row.leaseEndsAt, LEASE_MS, now) ? 0 : row.pending
  const failures = (isOver ? 0 : row.failures) + lapsed

  const clearsAt = runningEnd(row.clearsAt, (maxDailyFailures ?? 0) * WINDOW_MS, now)
  const isLater = lapsed > 0 && maxDailyFailures !== null
  const dayEndsAt = isLater ? after(clearsAt ?? now, lapsed * WINDOW_MS) : clearsAt
  const dailyFailures = dailyFailuresAt(dayEndsAt, now)
  const leftForTheDay = (maxDailyFailures ?? Infinity) - dailyFailures
  return {
    ...scope,
    failures,
    dailyFailures,
    pending: row.pending - lapsed,
    blockedUntil: runningEnd(row.blockedUntil, WINDOW_MS, now),
    windowEndsAt: isOver ? null : row.windowEndsAt,
    dayEndsAt,
    // When the failures for the day are used up, each window allows one more.
    budget: Math.max(1, Math.min(maxFailures, failures + leftForTheDay)),
  }
}

/** The failures for the day, of which one is forgiven every 15 minutes until the last one. */
export function dailyFailuresAt(clearsAt: Date | null, now: Date): number {
  const leftMs = (clearsAt ?? now).getTime() - now.getTime()
  return Math.max(0, Math.ceil(leftMs / WINDOW_MS))
}

/** What a reservation finds in its row becomes stored. */
function counted(row: ScopeRow, { failures, pending, dayEndsAt }: ScopeState, now: Date): ScopeRow {
  const expiresAt = latest(latest(row.expiresAt, expiryAt(now)), dayEndsAt)
  return { ...row, failures, pending, clearsAt: dayEndsAt, expiresAt }
}

/** When a row may be purged, unless its failures for the day are forgiven later. */
function expiryAt(now: Date): Date {
  return after(now, LEASE_MS + WINDOW_MS)
}

/** The row of a scope; if none is stored, one that counts nothing. */
export function rowOf({ key, name, emailDigest }: ThrottleScope, rows: ScopeRow[]): ScopeRow {
  const found = rows.find(row => row.key === key)
  if (found) return found
  return {
    ...{ key, name, emailDigest, failures: 0, pending: 0 },
    ...{ leaseEndsAt: new Date(0), windowEndsAt: new Date(0), expiresAt: new Date(0) },
    ...{ blockedUntil: null, clearsAt: null },
  }
}

/** Null if it is over, or too far in the future: the clock was ahead, and has been set since. */
function runningEnd(end: Date | null, lengthMs: number, now: Date): Date | null {
  const leftMs = end ? end.getTime() - now.getTime() : 0
  return leftMs > 0 && leftMs <= 2 * lengthMs ? end : null
}

function after(time: Date, ms: number): Date {
  return new Date(time.getTime() + ms)
}

function latest(a: Date, b: Date | null): Date {
  return b !== null && b > a ? b : a
}
