// Decides whether an attempt is accepted, without any side effect. The reasons are for the log: the caller
// gets the same answer for all of them.
import type { User } from '../domain/user.ts'

export type RejectionReason =
  | 'unknown-email'
  | 'wrong-password'
  | 'inactive'
  | 'locked-by-administrator'
  | 'changed-meanwhile'

type Decision = { kind: 'accepted'; user: User } | { kind: 'rejected'; reason: RejectionReason }

export function decide(user: User | null, passwordMatches: boolean, now: Date): Decision {
  if (!user) return { kind: 'rejected', reason: 'unknown-email' }
  if (!passwordMatches) return { kind: 'rejected', reason: 'wrong-password' }
  if (!user.isActive) return { kind: 'rejected', reason: 'inactive' }
  if (isLockedByAdministrator(user, now))
    return { kind: 'rejected', reason: 'locked-by-administrator' }
  return { kind: 'accepted', user }
}

/**
 * Ignores locks set by the throttle; a lock without `lockedBy` counts as an administrator's. The same rule
 * in SQL is `isNotLockedByAdministrator` in `storage/sql/user-rows.ts`.
 */
export function isLockedByAdministrator(
  user: Pick<User, 'lockedUntil' | 'lockedBy'>,
  now: Date,
): boolean {
  if (user.lockedUntil === null || user.lockedBy === 'throttle') return false
  // Negated, so that an invalid date counts as locked.
  return !(user.lockedUntil <= now)
}
