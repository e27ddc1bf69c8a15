// How a throttle row is read and changed. Both engines settle with the statements below; SQLite also
// reserves with them, PostgreSQL reserves in the one statement of postgres-reserve.ts.
import { type Kysely, type Selectable, sql, type Transaction } from 'kysely'
import type { Schema } from './schema.ts'
import type { Reservation, ThrottleScope } from './store.ts'
import { toText, toTime } from './values.ts'

/** The specified wait; also the span over which failures are counted. */
export const WINDOW_MS = 15 * 60_000
/** Longer than any attempt can take: only a killed process leaves a lease to run out. */
export const LEASE_MS = 60_000

/** The moments that a write at `now` refers to, as text. */
export function momentsAt(now: Date) {
  return {
    now: toText(now),
    leaseEnd: toText(now, LEASE_MS),
    windowEnd: toText(now, WINDOW_MS),
    /** No part of a row means anything after its lease, then a window, have passed. */
    expiry: toText(now, LEASE_MS + WINDOW_MS),
  }
}

export async function reserveInTransaction(
  trx: Transaction<Schema>,
  scopes: ThrottleScope[],
  email: string,
  now: Date,
): Promise<Reservation> {
  const rows = await trx
    .selectFrom('login_throttle')
    .selectAll()
    .where('key', 'in', keysOf(scopes))
    .execute()
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
      await trx
        .updateTable('login_throttle')
        .set({ failures, pending, blocked_until: at.windowEnd, expires_at: at.expiry })
        .where('key', '=', scope.key)
        .execute()
    }
    const locked = spent.some(s => s.scope.name === 'email')
      ? await lockByThrottle(trx, email, now)
      : null
    return refusal(
      refusing.map(s => ({
        scope: s.scope.name,
        blockedUntil: s.blockedUntil ?? toTime(at.windowEnd),
      })),
      locked,
    )
  }

  const full = states.find(s => s.failures + s.pending >= s.scope.maxFailures)
  if (full) return { kind: 'busy', key: full.scope.key }

  for (const { scope, failures, pending, windowEndsAt } of states) {
    const row = {
      failures,
      pending: pending + 1,
      lease_ends_at: at.leaseEnd,
      window_ends_at: windowEndsAt ? toText(windowEndsAt) : at.windowEnd,
      blocked_until: null,
      expires_at: at.expiry,
    }
    await trx
      .insertInto('login_throttle')
      .values({ key: scope.key, scope: scope.name, email_digest: scope.emailDigest, ...row })
      .onConflict(conflict => conflict.column('key').doUpdateSet(row))
      .execute()
  }
  return { kind: 'admitted' }
}

/** What a row means now: windows and blocks that ended are over, leases that ran out are failures. */
function stateOf(row: Selectable<Schema['login_throttle']> | undefined, now: Date) {
  if (!row) return { failures: 0, pending: 0, blockedUntil: null, windowEndsAt: null }
  const blockedUntil = row.blocked_until === null ? null : toTime(row.blocked_until)
  const isBlocked = blockedUntil !== null && blockedUntil > now
  const isOver = !isBlocked && (blockedUntil !== null || toTime(row.window_ends_at) <= now)
  const abandoned = toTime(row.lease_ends_at) <= now ? row.pending : 0
  return {
    failures: (isOver ? 0 : row.failures) + abandoned,
    pending: row.pending - abandoned,
    blockedUntil: isBlocked ? blockedUntil : null,
    windowEndsAt: isOver ? null : toTime(row.window_ends_at),
  }
}

/** Of several blocks the longest is the one to wait for. */
export function refusal(
  blocks: { scope: ThrottleScope['name']; blockedUntil: Date }[],
  lockedUserId: string | null,
): Reservation {
  const longest = blocks.reduce((a, b) => (b.blockedUntil > a.blockedUntil ? b : a))
  return { kind: 'refused', ...longest, lockedUserId }
}

async function lockByThrottle(
  trx: Transaction<Schema>,
  email: string,
  now: Date,
): Promise<string | null> {
  const { now: moment, windowEnd } = momentsAt(now)
  const locked = await trx
    .updateTable('users')
    .set({ locked_until: windowEnd, locked_by: 'throttle', updated_at: moment })
    .where('email', '=', email)
    .where(isNotLockedByAdministrator(moment))
    .returning('id')
    .executeTakeFirst()
  // The same write for nobody, here too.
  if (!locked) await trx.updateTable('unknown_user').set({ updated_at: moment }).execute()
  return locked?.id ?? null
}

/** A `locked_until` without a word on who set it was set by hand: an administrator's. */
export function isNotLockedByAdministrator(now: string) {
  return sql<boolean>`(locked_until is null or locked_until <= ${now} or locked_by = 'throttle')`
}

/** Gives back the place of an attempt that was not verified. */
export async function giveBack(db: Kysely<Schema>, scopes: ThrottleScope[]): Promise<void> {
  await db
    .updateTable('login_throttle')
    .set({ pending: ONE_PENDING_LESS })
    .where('key', 'in', keysOf(scopes))
    .execute()
}

/** Turns a pending attempt into a failure, in a window that starts with the first one. */
export async function countFailure(
  db: Kysely<Schema>,
  scopes: ThrottleScope[],
  now: Date,
): Promise<void> {
  const at = momentsAt(now)
  const startsWindow = sql`(failures = 0 or window_ends_at <= ${at.now})`
  await db
    .updateTable('login_throttle')
    .set({
      pending: ONE_PENDING_LESS,
      failures: sql`case when window_ends_at <= ${at.now} then 1 else failures + 1 end`,
      window_ends_at: sql`case when ${startsWindow} then ${at.windowEnd} else window_ends_at end`,
      expires_at: at.expiry,
    })
    .where('key', 'in', keysOf(scopes))
    .execute()
}

/** A success gives its places back and forgets the failures of its pair or device, nobody else's. */
export async function forgiveFailures(db: Kysely<Schema>, scopes: ThrottleScope[]): Promise<void> {
  await db
    .updateTable('login_throttle')
    .set({
      pending: ONE_PENDING_LESS,
      failures: sql`case when scope in ('pair', 'device') then 0 else failures end`,
    })
    .where('key', 'in', keysOf(scopes))
    .execute()
}

const ONE_PENDING_LESS = sql<number>`case when pending > 0 then pending - 1 else 0 end`

/** Attempts that are being verified keep their places: they are counted when they settle. */
export async function forgetFailures(db: Kysely<Schema>, scopes: Keyed[]): Promise<void> {
  if (scopes.length === 0) return
  await db
    .updateTable('login_throttle')
    .set({ failures: 0, blocked_until: null })
    .where('key', 'in', keysOf(scopes))
    .execute()
}

export type Keyed = Pick<ThrottleScope, 'key'>

export function keysOf(scopes: Keyed[]): string[] {
  return scopes.map(scope => scope.key)
}
