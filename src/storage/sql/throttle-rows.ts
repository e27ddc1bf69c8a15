// Rows of the throttle, as far as both engines share them; each engine reserves and settles in its own way.
import { randomBytes } from 'node:crypto'
import { type RawBuilder, sql, type Transaction } from 'kysely'
import type { Reservation, ThrottleScope } from '../../domain/attempt.ts'
import type { AuditFacts } from '../../domain/audit.ts'
import { WINDOW_MS } from '../../domain/throttle.ts'
import { digestOf } from '../../system/identifiers.ts'
import type { Engine } from './engine.ts'
import { DUMMY_IDS, formatTime, parseTime, parseTimeOrNull, type Schema } from './schema.ts'

/** Longer than any attempt takes. A lease ends only if the process or the database failed meanwhile. */
export const LEASE_MS = 60_000

/** The times that a write at `now` uses, as they are stored. */
export type Moments = ReturnType<typeof momentsAt>

export function momentsAt(now: Date) {
  return {
    now: formatTime(now),
    leaseEnd: formatTime(now, LEASE_MS),
    windowEnd: formatTime(now, WINDOW_MS),
    /** When a row may be purged, unless its failures for the day are forgiven later. */
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
  return DUMMY_IDS[Number.parseInt(byte, 16)] ?? ''
}

/** Reports the block that ends last. */
export function toBlock(
  blocks: { scope: ThrottleScope['name']; blockedUntil: Date }[],
  lockedUserId: string | null,
): Reservation {
  const longest = blocks.reduce((a, b) => (b.blockedUntil > a.blockedUntil ? b : a))
  return { kind: 'blocked', ...longest, lockedUserId }
}

/** Counts a failure of a user or a dummy row. Wraps around before the columns overflow: dummy rows are never reset. */
export const ONE_FAILURE_MORE = sql`failed_login_attempts = (failed_login_attempts + 1) % 1000000000,
  failures_since_login = (failures_since_login + 1) % 1000000000`

/**
 * Clears failures and blocks; returns the most failures and the last block that there were, or null if there were
 * none. Pending attempts stay pending, and count when they settle.
 */
export async function clearFailures(
  engine: Engine,
  trx: Transaction<Schema>,
  which: RawBuilder<boolean>,
  now: Date,
): Promise<AuditFacts | null> {
  // Locked in the order of their keys, like by every other statement, so that no deadlock occurs.
  const rows = await trx
    .selectFrom('login_throttle')
    .select(['key', 'failures', 'clears_at', 'blocked_until'])
    .where(which)
    .orderBy('key')
    .$if(engine.name === 'postgres', query => query.forUpdate())
    .execute()
  const cleared = rows.filter(
    row => row.failures > 0 || row.clears_at !== null || row.blocked_until !== null,
  )
  if (cleared.length === 0) return null
  const keys = cleared.map(({ key }) => key)
  await trx
    .updateTable('login_throttle')
    .set({ failures: 0, clears_at: null, blocked_until: null })
    .where('key', 'in', keys)
    .execute()
  const blocks = cleared.flatMap(row => parseTimeOrNull(row.blocked_until)?.getTime() ?? [])
  return {
    failures: Math.max(
      ...cleared.flatMap(row => [row.failures, dailyFailuresOf(row.clears_at, now)]),
    ),
    blockedUntil: blocks.length > 0 ? formatTime(new Date(Math.max(...blocks))) : null,
  }
}

/** The failures for the day, of which one is forgiven every 15 minutes until the last one. */
export function dailyFailuresOf(clearsAt: Date | string | null, now: Date): number {
  const leftMs = parseTime(clearsAt ?? now).getTime() - now.getTime()
  return Math.max(0, Math.ceil(leftMs / WINDOW_MS))
}

export function isOfEmail(email: string) {
  return sql<boolean>`email_digest = ${digestOf(email)}`
}

export function keysOf(scopes: ThrottleScope[]): string[] {
  return scopes.map(scope => scope.key)
}
