// Reserves an attempt in SQLite, in one transaction, which holds the only write lock.
import { sql } from 'kysely'
import type { Reservation, ThrottleScope } from '../../domain/attempt.ts'
import type { ScopeState } from '../../domain/throttle.ts'
import { prepare, type RunNow } from '../sql/prepared.ts'
import { parseTime } from '../sql/schema.ts'
import { dummyIdOf, type Moments, momentsAt, toBlock } from '../sql/throttle-rows.ts'
import { STATE_COLUMNS, type StateRow, statesOf, toStoredDay } from '../sql/throttle-state.ts'
import {
  type FoundUser,
  isNotLockedByAdministrator,
  selectUserOrDummy,
  toFoundUser,
} from '../sql/user-rows.ts'
import { isOneOf, toJson } from './settle.ts'

export function reserve(
  run: RunNow,
  scopes: ThrottleScope[],
  email: string,
  now: Date,
): Reservation {
  const rows = run(findRows, { keys: toJson(scopes) })
  const states = statesOf(scopes, rows, now)
  const at = { ...momentsAt(now), dummyId: dummyIdOf(scopes) }

  const blocking = states.filter(s => s.blockedUntil || s.failures >= s.budget)
  if (blocking.length > 0) {
    const spent = blocking.filter(s => !s.blockedUntil)
    for (const state of spent) {
      run(blockRow, { ...state, dayEndsAt: toStoredDay(state), ...at })
    }
    const isEmailSpent = spent.some(s => s.name === 'email')
    return toBlock(
      blocking.map(s => ({
        scope: s.name,
        blockedUntil: s.blockedUntil ?? parseTime(at.windowEnd),
      })),
      isEmailSpent ? lockByThrottle(run, email, at) : null,
    )
  }

  const user = toFoundUser(run(findUser, { ...at, email })[0])
  const full = states.find(s => s.failures + s.pending >= s.budget)
  if (full) return { kind: 'busy', user, key: full.key, capacity: full.budget - full.failures }

  const reserved = states.map(state => ({
    ...state,
    pending: state.pending + 1,
    windowEndsAt: state.windowEndsAt ?? at.windowEnd,
    dayEndsAt: toStoredDay(state),
  }))
  run(writeRows, { rows: JSON.stringify(reserved), ...at })
  return { kind: 'admitted', user }
}

type Dummy = { dummyId: string }

const findRows = prepare<{ keys: string }, StateRow>((db, { keys }) =>
  db.selectFrom('login_throttle').select(STATE_COLUMNS).where(isOneOf(keys)).compile(),
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

type Spent = Pick<ScopeState, 'key' | 'failures' | 'dailyFailures' | 'pending'> & {
  dayEndsAt: string | null
}

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

function lockByThrottle(run: RunNow, email: string, at: Moments & Dummy): string | null {
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
