// Reserves an attempt in SQLite, in one transaction, which holds the only write lock.
import { sql } from 'kysely'
import type { Reservation, ThrottleScope } from '../../domain/attempt.ts'
import type { ScopeState } from '../../domain/throttle.ts'
import { prepare, type RunNow } from '../sql/prepared.ts'
import { formatTime, parseTime } from '../sql/schema.ts'
import { dummyIdOf, type Moments, momentsAt, toBlock } from '../sql/throttle-rows.ts'
import { STATE_COLUMNS, type StateRow, statesOf } from '../sql/throttle-state.ts'
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
      const clearsAt = state.dayEndsAt && formatTime(state.dayEndsAt)
      run(blockRow, { ...state, clearsAt, ...at })
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
  }))
  run(writeRows, { rows: JSON.stringify(reserved), ...at })
  return { kind: 'admitted', user }
}

type Dummy = { dummyId: string }

const findRows = prepare<{ keys: string }, StateRow>(
  ({ keys }) => sql`select ${sql.join(STATE_COLUMNS.map(column => sql.ref(column)))}
    from login_throttle where ${isOneOf(keys)}`,
)

/** Writes all scopes in one statement, whether they have a row or not. */
const writeRows = prepare<Moments & { rows: string }>(
  parameters => sql`insert into login_throttle (key, scope, email_digest, failures, pending,
      lease_ends_at, window_ends_at, clears_at, expires_at)
    select value ->> 'key', value ->> 'name', value ->> 'emailDigest', value ->> 'failures',
      value ->> 'pending', ${parameters.leaseEnd}, value ->> 'windowEndsAt', value ->> 'dayEndsAt',
      max(${parameters.expiry}, coalesce(value ->> 'dayEndsAt', ''))
    from json_each(${parameters.rows}) where true
    on conflict (key) do update set failures = excluded.failures, pending = excluded.pending,
      lease_ends_at = excluded.lease_ends_at, window_ends_at = excluded.window_ends_at,
      blocked_until = null, clears_at = excluded.clears_at,
      expires_at = max(expires_at, excluded.expires_at)`,
)

type Spent = Pick<ScopeState, 'key' | 'failures' | 'pending'> & { clearsAt: string | null }

const blockRow = prepare<Moments & Spent>(
  at => sql`update login_throttle set failures = ${at.failures}, pending = ${at.pending},
      blocked_until = ${at.windowEnd}, clears_at = ${at.clearsAt},
      expires_at = max(expires_at, ${at.expiry}, coalesce(${at.clearsAt}, ''))
    where key = ${at.key}`,
)

const findUser = prepare<Dummy & { email: string }, FoundUser>(({ email, dummyId }) =>
  selectUserOrDummy(email, dummyId),
)

function lockByThrottle(run: RunNow, email: string, at: Moments & Dummy): string | null {
  const [locked] = run(lockUser, { email, ...at })
  // An email without a user costs the same write.
  if (!locked) run(touchDummy, at)
  return locked?.id ?? null
}

const lockUser = prepare<Moments & { email: string }, { id: string }>(
  at => sql`update users
    set locked_until = ${at.windowEnd}, locked_by = 'throttle', updated_at = ${at.now}
    where email = ${at.email} and ${isNotLockedByAdministrator(at.now)} returning id`,
)

const touchDummy = prepare<Moments & Dummy>(
  ({ now, dummyId }) => sql`update unknown_user set updated_at = ${now} where id = ${dummyId}`,
)
