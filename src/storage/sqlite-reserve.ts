// The reservation of an attempt in SQLite, within a transaction that is the only one to write.
import { type Selectable, sql } from 'kysely'
import { prepare } from './prepared.ts'
import type { Schema } from './schema.ts'
import { isOneOf, type Run, toJson } from './sqlite-settle.ts'
import type { Reservation, ThrottleScope } from './store.ts'
import {
  isNotLockedByAdministrator,
  LEASE_MS,
  type Moments,
  momentsAt,
  refusal,
  WINDOW_MS,
} from './throttle-rows.ts'
import { type FoundUser, selectUserOrNobody, toFoundUser } from './users-rows.ts'
import { toText, toTime } from './values.ts'

export function reserve(run: Run, scopes: ThrottleScope[], email: string, now: Date): Reservation {
  const rows = run(findRows, { keys: toJson(scopes) })
  const states = scopes.map(scope => ({
    scope,
    ...stateOf(
      rows.find(row => row.key === scope.key),
      now,
    ),
  }))
  const at = momentsAt(now)

  const refusing = states.filter(s => s.blockedUntil || s.failures >= s.scope.maxFailures)
  if (refusing.length > 0) {
    const spent = refusing.filter(s => !s.blockedUntil)
    for (const { scope, failures, pending } of spent) {
      run(blockRow, { key: scope.key, failures, pending, ...at })
    }
    const isEmailSpent = spent.some(s => s.scope.name === 'email')
    return refusal(
      refusing.map(s => ({
        scope: s.scope.name,
        blockedUntil: s.blockedUntil ?? toTime(at.windowEnd),
      })),
      isEmailSpent ? lockByThrottle(run, email, at) : null,
    )
  }

  const full = states.find(s => s.failures + s.pending >= s.scope.maxFailures)
  if (full) {
    const { key, maxFailures } = full.scope
    return { kind: 'busy', key, places: maxFailures - full.failures }
  }

  const reserved = states.map(({ scope, failures, pending, windowEndsAt }) => ({
    ...scope,
    failures,
    pending: pending + 1,
    windowEnd: windowEndsAt ?? at.windowEnd,
  }))
  run(writeRows, { rows: JSON.stringify(reserved), ...at })
  return { kind: 'admitted', user: toFoundUser(run(findUser, { email })[0]) }
}

type ThrottleRow = Omit<
  Selectable<Schema['login_throttle']>,
  'scope' | 'email_digest' | 'expires_at'
>

const findRows = prepare<{ keys: string }, ThrottleRow>((db, { keys }) =>
  db
    .selectFrom('login_throttle')
    .select(['key', 'failures', 'pending', 'lease_ends_at', 'window_ends_at', 'blocked_until'])
    .where(isOneOf(keys))
    .compile(),
)

/** One statement for all scopes, new or known. */
const writeRows = prepare<Moments & { rows: string }>((db, holes) =>
  sql`insert into login_throttle (key, scope, email_digest, failures, pending, lease_ends_at,
      window_ends_at, expires_at)
    select value ->> 'key', value ->> 'name', value ->> 'emailDigest', value ->> 'failures',
      value ->> 'pending', ${holes.leaseEnd}, value ->> 'windowEnd', ${holes.expiry}
    from json_each(${holes.rows}) where true
    on conflict (key) do update set failures = excluded.failures, pending = excluded.pending,
      lease_ends_at = excluded.lease_ends_at, window_ends_at = excluded.window_ends_at,
      blocked_until = null, expires_at = excluded.expires_at`.compile(db),
)

const blockRow = prepare<Moments & { key: string; failures: number; pending: number }>(
  (db, { key, failures, pending, windowEnd, expiry }) =>
    db
      .updateTable('login_throttle')
      .set({ failures, pending, blocked_until: windowEnd, expires_at: expiry })
      .where('key', '=', key)
      .compile(),
)

const findUser = prepare<{ email: string }, FoundUser>((db, { email }) =>
  selectUserOrNobody(email).compile(db),
)

/** What a row means now: windows and blocks that ended are over, leases that ran out are failures. */
function stateOf(row: ThrottleRow | undefined, now: Date) {
  if (!row) return { failures: 0, pending: 0, blockedUntil: null, windowEndsAt: null }
  const windowEndsAt = toTime(row.window_ends_at)
  const blockedUntil = row.blocked_until === null ? null : toTime(row.blocked_until)
  const isBlocked = blockedUntil !== null && isToCome(blockedUntil, now, WINDOW_MS)
  const isOver = !isBlocked && (blockedUntil !== null || !isToCome(windowEndsAt, now, WINDOW_MS))
  const abandoned = isToCome(toTime(row.lease_ends_at), now, LEASE_MS) ? 0 : row.pending
  return {
    failures: (isOver ? 0 : row.failures) + abandoned,
    pending: row.pending - abandoned,
    blockedUntil: isBlocked ? blockedUntil : null,
    windowEndsAt: isOver ? null : toText(windowEndsAt),
  }
}

/** What is further away than it can be was written by a clock that was ahead. */
function isToCome(end: Date, now: Date, spanMs: number): boolean {
  const leftMs = end.getTime() - now.getTime()
  return leftMs > 0 && leftMs <= 2 * spanMs
}

function lockByThrottle(run: Run, email: string, at: Moments): string | null {
  const [locked] = run(lockUser, { email, ...at })
  // The same write for nobody, here too.
  if (!locked) run(touchNobody, at)
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

const touchNobody = prepare<Moments>((db, { now }) =>
  db.updateTable('unknown_user').set({ updated_at: now }).compile(),
)
