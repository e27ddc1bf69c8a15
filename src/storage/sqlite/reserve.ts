// Reserves an attempt in SQLite, in one transaction, which holds the only write lock.
import { type Selectable, sql } from 'kysely'
import type { Reservation, ThrottleScope } from '../../domain/attempt.ts'
import { prepare } from '../sql/prepared.ts'
import { formatTime, parseTime, parseTimeOrNull, type Schema } from '../sql/schema.ts'
import {
  DAY_MS,
  dummyIdOf,
  LEASE_MS,
  type Moments,
  momentsAt,
  toBlock,
  WINDOW_MS,
} from '../sql/throttle-rows.ts'
import {
  type FoundUser,
  isNotLockedByAdministrator,
  selectUserOrDummy,
  toFoundUser,
} from '../sql/user-rows.ts'
import { isOneOf, type Run, toJson } from './settle.ts'

export function reserve(run: Run, scopes: ThrottleScope[], email: string, now: Date): Reservation {
  const rows = run(findRows, { keys: toJson(scopes) })
  const states = scopes.map(scope =>
    stateOf(
      scope,
      rows.find(row => row.key === scope.key),
      now,
    ),
  )
  const at = { ...momentsAt(now), dummyId: dummyIdOf(scopes) }

  const blocking = states.filter(s => s.blockedUntil || s.failures >= s.budget)
  if (blocking.length > 0) {
    const spent = blocking.filter(s => !s.blockedUntil)
    for (const state of spent) run(blockRow, { ...state, ...at })
    const isEmailSpent = spent.some(s => s.name === 'email')
    return toBlock(
      blocking.map(s => ({
        scope: s.name,
        blockedUntil: s.blockedUntil ?? parseTime(at.windowEnd),
      })),
      isEmailSpent ? lockByThrottle(run, email, at) : null,
    )
  }

  const full = states.find(s => s.failures + s.pending >= s.budget)
  if (full) return { kind: 'busy', key: full.key, capacity: full.budget - full.failures }

  const reserved = states.map(state => ({
    ...state,
    pending: state.pending + 1,
    windowEndsAt: state.windowEndsAt ?? at.windowEnd,
  }))
  run(writeRows, { rows: JSON.stringify(reserved), ...at })
  return { kind: 'admitted', user: toFoundUser(run(findUser, { ...at, email })[0]) }
}

type Dummy = { dummyId: string }

type ThrottleRow = Omit<
  Selectable<Schema['login_throttle']>,
  'scope' | 'email_digest' | 'expires_at'
>

const findRows = prepare<{ keys: string }, ThrottleRow>((db, { keys }) =>
  db
    .selectFrom('login_throttle')
    .select(['key', 'failures', 'daily_failures', 'pending', 'lease_ends_at'])
    .select(['window_ends_at', 'day_ends_at', 'blocked_until'])
    .where(isOneOf(keys))
    .compile(),
)

/** Writes all scopes in one statement, whether they have a row or not. */
const writeRows = prepare<Moments & { rows: string }>((db, parameters) =>
  sql`insert into login_throttle (key, scope, email_digest, failures, daily_failures, pending,
      lease_ends_at, window_ends_at, day_ends_at, expires_at)
    select value ->> 'key', value ->> 'name', value ->> 'emailDigest', value ->> 'failures',
      value ->> 'dailyFailures', value ->> 'pending', ${parameters.leaseEnd}, value ->> 'windowEndsAt',
      value ->> 'dayEndsAt', ${parameters.expiry}
    from json_each(${parameters.rows}) where true
    on conflict (key) do update set failures = excluded.failures,
      daily_failures = excluded.daily_failures, pending = excluded.pending,
      lease_ends_at = excluded.lease_ends_at, window_ends_at = excluded.window_ends_at,
      day_ends_at = excluded.day_ends_at, blocked_until = null,
      expires_at = max(expires_at, excluded.expires_at)`.compile(db),
)

type Spent = Pick<ScopeState, 'key' | 'failures' | 'dailyFailures' | 'pending' | 'dayEndsAt'>

const blockRow = prepare<Moments & Spent>(
  (db, { key, failures, dailyFailures, pending, dayEndsAt, windowEnd, expiry }) =>
    db
      .updateTable('login_throttle')
      .set({ failures, daily_failures: dailyFailures, pending, day_ends_at: dayEndsAt })
      .set({ blocked_until: windowEnd, expires_at: sql`max(expires_at, ${expiry})` })
      .where('key', '=', key)
      .compile(),
)

const findUser = prepare<Dummy & { email: string }, FoundUser>((db, { email, dummyId }) =>
  selectUserOrDummy(email, dummyId).compile(db),
)

type ScopeState = ReturnType<typeof stateOf>

/** The state of a scope at `now`: windows and blocks may be over, and expired leases count as failures. */
function stateOf(scope: ThrottleScope, row: ThrottleRow | undefined, now: Date) {
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
    windowEndsAt: isOver ? null : formatTime(windowEndsAt),
    budget: budgetOf(scope, failures, day.dailyFailures),
  }
}

function dayOf(scope: ThrottleScope, row: ThrottleRow, lapsed: number, now: Date) {
  if (scope.maxDailyFailures === null) return { dailyFailures: 0, dayEndsAt: null }
  const dayEndsAt = parseTimeOrNull(row.day_ends_at)
  if (dayEndsAt !== null && isInPlausibleFuture(dayEndsAt, now, DAY_MS)) {
    return { dailyFailures: row.daily_failures + lapsed, dayEndsAt: formatTime(dayEndsAt) }
  }
  return { dailyFailures: lapsed, dayEndsAt: lapsed > 0 ? formatTime(now, DAY_MS) : null }
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

function lockByThrottle(run: Run, email: string, at: Moments & Dummy): string | null {
  const [locked] = run(lockUser, { email, ...at })
  // An email without a user costs the same write.
  if (!locked) run(touchDummy, at)
  return locked?.id ?? null
}

const lockUser = prepare<Moments & { email: string }, { id: string }>((db, at) =>
  db
    .updateTable('users')
    .set({ locked_until: at.windowEnd, locked_by: 'throttle', updated_at: at.now })
    .where('email', '=', at.email)
    .where(isNotLockedByAdministrator(at.now))
    .returning('id')
    .compile(),
)

const touchDummy = prepare<Moments & Dummy>((db, { now, dummyId }) =>
  db.updateTable('unknown_user').set({ updated_at: now }).where('id', '=', dummyId).compile(),
)
