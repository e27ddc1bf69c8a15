// The verdict on an attempt, from facts alone. The reasons are for operators: the caller is told one
// and the same thing for all of them.
import type { User } from '../domain/user.ts'

export type RejectionReason =
  | 'unknown-email'
  | 'wrong-password'
  | 'inactive'
  | 'locked-by-administrator'
  | 'changed-meanwhile'

export type Decision =
  | { kind: 'accepted'; user: User }
  | { kind: 'rejected'; reason: RejectionReason }

export function decide(user: User | null, passwordMatches: boolean, now: Date): Decision {
  if (!user) return { kind: 'rejected', reason: 'unknown-email' }
  if (!passwordMatches) return { kind: 'rejected', reason: 'wrong-password' }
  if (!user.isActive) return { kind: 'rejected', reason: 'inactive' }
  if (isLockedByAdministrator(user, now))
    return { kind: 'rejected', reason: 'locked-by-administrator' }
  return { kind: 'accepted', user }
}

/** A throttle's lock is the throttle's own matter; one that says nothing was set by hand. */
export function isLockedByAdministrator(user: User, now: Date): boolean {
  if (user.lockedUntil === null || user.lockedBy === 'throttle') return false
  // A moment that cannot be read has not passed.
  return !(user.lockedUntil <= now)
}
