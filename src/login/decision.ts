// Decides whether an attempt is accepted, without any side effect. The reasons are for the log: the caller
// gets the same answer for all of them.
import { isLockedByAdministrator, type User } from '../domain/user.ts'

export type RejectionReason =
  | 'unknown-email'
  | 'wrong-password'
  | 'inactive'
  | 'locked-by-administrator'
  | 'temporary-password-ended'
  | 'changed-meanwhile'

type Decision = { kind: 'accepted'; user: User } | { kind: 'rejected'; reason: RejectionReason }

export function decide(user: User | null, passwordMatches: boolean, now: Date): Decision {
  if (!user) return { kind: 'rejected', reason: 'unknown-email' }
  if (!passwordMatches) return { kind: 'rejected', reason: 'wrong-password' }
  if (!user.isActive) return { kind: 'rejected', reason: 'inactive' }
  if (isLockedByAdministrator(user, now))
    return { kind: 'rejected', reason: 'locked-by-administrator' }
  // Negated, so that an invalid date counts as ended.
  if (user.temporaryUntil !== null && !(user.temporaryUntil > now))
    return { kind: 'rejected', reason: 'temporary-password-ended' }
  return { kind: 'accepted', user }
}
