// What throttle rows mean on both engines. How they are reserved and settled is each engine's own matter.
import { randomBytes } from 'node:crypto'
import { sql, type Transaction } from 'kysely'
import type { Reservation, ThrottleScope } from '../../domain/attempt.ts'
import { digestOf } from '../../identifiers.ts'
import type { Engine } from './engine.ts'
import { type Schema, UNKNOWN_USER_ID } from './schema.ts'
import { toText } from './values.ts'

/** The specified wait; also the span over which failures are counted. */
export const WINDOW_MS = 15 * 60_000
/** Longer than any attempt can take: only a killed process leaves a lease to run out. */
export const LEASE_MS = 60_000
/** The span over which the failures of an email are limited a second time. */
export const DAY_MS = 24 * 3_600_000

/** The moments that a write at `now` refers to, as text. */
export type Moments = ReturnType<typeof momentsAt>

export function momentsAt(now: Date) {
  return {
    now: toText(now),
    leaseEnd: toText(now, LEASE_MS),
    windowEnd: toText(now, WINDOW_MS),
    dayEnd: toText(now, DAY_MS),
    /** When a row means nothing any more, unless it counts the failures of a day. */
    expiry: toText(now, LEASE_MS + WINDOW_MS),
  }
}

/** Unknown to callers, who could otherwise choose emails that share a row and wait for each other. */
const ROW_SALT = randomBytes(16).toString('hex')

/**
 * The row of `unknown_user` that is read and written if the email has no user. With a single row, parallel
 * attempts at unknown emails would wait for each other, and attempts at known ones would not.
 */
export function unknownUserId([scope]: ThrottleScope[]): string {
  const byte = digestOf(ROW_SALT + scope?.emailDigest).slice(0, 2)
  return UNKNOWN_USER_ID.slice(0, -2) + byte
}

/** Of several blocks the longest is the one to wait for. */
export function toBlock(
  blocks: { scope: ThrottleScope['name']; blockedUntil: Date }[],
  lockedUserId: string | null,
): Reservation {
  const longest = blocks.reduce((a, b) => (b.blockedUntil > a.blockedUntil ? b : a))
  return { kind: 'blocked', ...longest, lockedUserId }
}

/** A `locked_until` without a word on who set it was set by hand: an administrator's. */
export function isNotLockedByAdministrator(now: string) {
  return sql<boolean>`(locked_until is null or locked_until <= ${now} or locked_by = 'throttle')`
}

/** Never beyond what the column holds: the row of nobody is never set back. */
export const ONE_FAILURE_MORE = sql<number>`(failed_login_attempts + 1) % 1000000000`

/** Clears failures and blocks of an account. Pending attempts stay pending, and count when they settle. */
export async function clearFailures(
  engine: Engine,
  trx: Transaction<Schema>,
  emailDigest: string,
): Promise<void> {
  // Locks the rows in the order of their keys, like every other statement, so that no deadlock occurs.
  const rows = await trx
    .selectFrom('login_throttle')
    .select('key')
    .where('email_digest', '=', emailDigest)
    .orderBy('key')
    .$if(engine.name === 'postgres', query => query.forUpdate())
    .execute()
  if (rows.length === 0) return
  await trx
    .updateTable('login_throttle')
    .set({ failures: 0, daily_failures: 0, blocked_until: null })
    .where(
      'key',
      'in',
      rows.map(({ key }) => key),
    )
    .execute()
}

export function keysOf(scopes: ThrottleScope[]): string[] {
  return scopes.map(scope => scope.key)
}
