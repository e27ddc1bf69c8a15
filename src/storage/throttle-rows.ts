// How throttle rows are settled, on both engines. How they are reserved is each engine's own matter.
import { type Kysely, sql } from 'kysely'
import { prepare } from './prepared.ts'
import type { Schema } from './schema.ts'
import type { Reservation, ThrottleScope } from './store.ts'
import { toText } from './values.ts'

/** The specified wait; also the span over which failures are counted. */
export const WINDOW_MS = 15 * 60_000
/** Longer than any attempt can take: only a killed process leaves a lease to run out. */
export const LEASE_MS = 60_000

/** The moments that a write at `now` refers to, as text. */
export type Moments = ReturnType<typeof momentsAt>

export function momentsAt(now: Date) {
  return {
    now: toText(now),
    leaseEnd: toText(now, LEASE_MS),
    windowEnd: toText(now, WINDOW_MS),
    /** No part of a row means anything after its lease, then a window, have passed. */
    expiry: toText(now, LEASE_MS + WINDOW_MS),
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

/** A `locked_until` without a word on who set it was set by hand: an administrator's. */
export function isNotLockedByAdministrator(now: string) {
  return sql<boolean>`(locked_until is null or locked_until <= ${now} or locked_by = 'throttle')`
}

const ONE_PENDING_LESS = sql<number>`case when pending > 0 then pending - 1 else 0 end`

/** Gives back the place of an attempt that was not verified. */
export async function giveBack(db: Kysely<Schema>, scopes: ThrottleScope[]): Promise<void> {
  await giveBackRows(db, toHoles(scopes))
}

const giveBackRows = prepare<KeyHoles>((db, holes) =>
  db
    .updateTable('login_throttle')
    .set({ pending: ONE_PENDING_LESS })
    .where('key', 'in', holeKeys(holes))
    .compile(),
)

/** Turns a pending attempt into a failure, in a window that starts with the first one. */
export async function countFailure(
  db: Kysely<Schema>,
  scopes: ThrottleScope[],
  now: Date,
): Promise<void> {
  await countFailureRows(db, { ...toHoles(scopes), ...momentsAt(now) })
}

const countFailureRows = prepare<KeyHoles & Moments>((db, at) =>
  db
    .updateTable('login_throttle')
    .set({
      pending: ONE_PENDING_LESS,
      failures: sql`case when window_ends_at <= ${at.now} then 1 else failures + 1 end`,
      window_ends_at: sql`case when failures = 0 or window_ends_at <= ${at.now}
        then ${at.windowEnd} else window_ends_at end`,
      expires_at: at.expiry,
    })
    .where('key', 'in', holeKeys(at))
    .compile(),
)

/** A success gives its places back and forgets the failures of its pair or device, nobody else's. */
export async function forgiveFailures(db: Kysely<Schema>, scopes: ThrottleScope[]): Promise<void> {
  await forgiveRows(db, toHoles(scopes))
}

const forgiveRows = prepare<KeyHoles>((db, holes) =>
  db
    .updateTable('login_throttle')
    .set({
      pending: ONE_PENDING_LESS,
      failures: sql`case when scope in ('pair', 'device') then 0 else failures end`,
    })
    .where('key', 'in', holeKeys(holes))
    .compile(),
)

/** Attempts that are being verified keep their places: they are counted when they settle. */
export async function forgetFailures(db: Kysely<Schema>, scopes: Keyed[]): Promise<void> {
  if (scopes.length === 0) return
  await db
    .updateTable('login_throttle')
    .set({ failures: 0, blocked_until: null })
    .where('key', 'in', keysOf(scopes))
    .execute()
}

/** No attempt has more scopes; whoever has fewer names one of them repeatedly. */
export type KeyHoles = { first: string; second: string; third: string }

export function toHoles([first, second = first, third = first]: Keyed[]): KeyHoles {
  if (!first || !second || !third) throw new Error('an attempt has at least one scope')
  return { first: first.key, second: second.key, third: third.key }
}

export function holeKeys({ first, second, third }: KeyHoles): string[] {
  return [first, second, third]
}

export type Keyed = Pick<ThrottleScope, 'key'>

export function keysOf(scopes: Keyed[]): string[] {
  return scopes.map(scope => scope.key)
}
