// Decides whether an attempt is accepted, without any side effect. The reasons are for the log: the caller
// gets the same answer for all of them.
import { type FailedStep, NO_GUESS } from '../domain/second-factor.ts'
import { isLockedByAdministrator, type User } from '../domain/user.ts'
import type { SecondStep, StepReason } from './second-step.ts'

export type RejectionReason =
  | 'unknown-email'
  | 'wrong-password'
  | 'inactive'
  | 'locked-by-administrator'
  | 'temporary-password-ended'
  | 'changed-meanwhile'
  | StepReason

export type Verified = { user: User; step: Exclude<SecondStep, { kind: 'unproved' }> }

type Decision =
  | ({ kind: 'accepted' } & Verified)
  | { kind: 'rejected'; reason: RejectionReason; failed: FailedStep }

export function decide(
  user: User | null,
  passwordMatches: boolean,
  step: SecondStep,
  now: Date,
): Decision {
  const rejected = (reason: RejectionReason, failed = NO_GUESS) =>
    ({ kind: 'rejected', reason, failed }) as const
  if (!user) return rejected('unknown-email')
  if (!passwordMatches) return rejected('wrong-password')
  if (!user.isActive) return rejected('inactive')
  if (isLockedByAdministrator(user, now)) return rejected('locked-by-administrator')
  // Negated, so that an invalid date counts as ended.
  if (user.temporaryUntil !== null && !(user.temporaryUntil > now))
    return rejected('temporary-password-ended')
  if (step.kind === 'unproved') return rejected(step.reason, step.failed)
  return { kind: 'accepted', user, step }
}
