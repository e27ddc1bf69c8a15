// Rows of the throttle, as far as both engines share them; each engine reserves and settles in its own way.
import { randomBytes } from 'node:crypto'
import { sql, type Transaction } from 'kysely'
import type { Reservation, ThrottleScope } from '../../domain/attempt.ts'
import { digestOf } from '../../identifiers.ts'
import type { Engine } from './engine.ts'
import { FIRST_DUMMY_ID, formatTime, type Schema } from './schema.ts'

/** How long failures are counted, and how long a scope is blocked. */
export const WINDOW_MS = 15 * 60_000
/** Longer than any attempt takes. A lease ends only if the process or the database failed meanwhile. */
export const LEASE_MS = 60_000
/** How long failures are counted for the daily limit of an email. */
export const DAY_MS = 24 * 3_600_000

/** The times that a write at `now` uses, as they are stored. */
export type Moments = ReturnType<typeof momentsAt>

export function momentsAt(now: Date) {
  return {
    now: formatTime(now),
    leaseEnd: formatTime(now, LEASE_MS),
    windowEnd: formatTime(now, WINDOW_MS),
    dayEnd: formatTime(now, DAY_MS),
    /** When a row may be purged, unless it counts the failures of a day. */
    expiry: formatTime(now, LEASE_MS + WINDOW_MS),
  }
}

/** Secret: a caller that knew it could choose emails that share a row, and make attempts wait for it. */
const ROW_SALT = randomBytes(16).toString('hex')

/**
 * The row of `unknown_user` that is read and written if the email has no user. With a single row, parallel
 * attempts at unknown emails would wait for each other, and attempts at known ones would not.
 */
export function dummyIdOf([scope]: ThrottleScope[]): string {
  const byte = digestOf(ROW_SALT + scope?.emailDigest).slice(0, 2)
  return FIRST_DUMMY_ID.slice(0, -2) + byte
}

/** Reports the block that ends last. */
export function toBlock(
  blocks: { scope: ThrottleScope['name']; blockedUntil: Date }[],
  lockedUserId: string | null,
): Reservation {
  const longest = blocks.reduce((a, b) => (b.blockedUntil > a.blockedUntil ? b : a))
  return { kind: 'blocked', ...longest, lockedUserId }
}

/** Wraps around before the column overflows: dummy rows are never reset. */
export const ONE_FAILURE_MORE = sql<number>`(failed_login_attempts + 1) % 1000000000`

/**
 * Clears failures and blocks of an account; false if there were none. Pending attempts stay pending, and count
 * when they settle.
 */
export async function clearFailures(
  engine: Engine,
  trx: Transaction<Schema>,
  emailDigest: string,
): Promise<boolean> {
  // Locks the rows in the order of their keys, like every other statement, so that no deadlock occurs.
  const rows = await trx
    .selectFrom('login_throttle')
    .select(['key', 'failures', 'daily_failures', 'blocked_until'])
    .where('email_digest', '=', emailDigest)
    .orderBy('key')
    .$if(engine.name === 'postgres', query => query.forUpdate())
    .execute()
  if (rows.length === 0) return false
  await trx
    .updateTable('login_throttle')
    .set({ failures: 0, daily_failures: 0, blocked_until: null })
    .where(
      'key',
      'in',
      rows.map(({ key }) => key),
    )
    .execute()
  return rows.some(row => row.failures > 0 || row.daily_failures > 0 || row.blocked_until !== null)
}

export function keysOf(scopes: ThrottleScope[]): string[] {
  return scopes.map(scope => scope.key)
}
