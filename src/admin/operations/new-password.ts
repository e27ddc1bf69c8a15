// A password that an administrator sets: its rules, and its hash.
import type { Change } from '../../domain/audit.ts'
import type { User } from '../../domain/user.ts'
import {
  describeFlaw,
  findPasswordFlaw,
  PASSWORD_MIN_CHARACTERS,
} from '../../login/password-rules.ts'
import { Failure, unfitPassword } from '../../system/failures.ts'
import { type AdminDeps, changeNow } from './deps.ts'

type NewPassword = {
  password: string
  /** The administrator overrules the rules, except the fewest characters that the page takes. */
  allowWeak?: boolean | undefined
  /** It is random, and may be shorter than the rules demand of a password that a person chooses. */
  isGenerated?: boolean | undefined
}
/** A password, or its hash from another system. */
export type GivenPassword = (NewPassword | { passwordHash: string }) & {
  /** The end of a temporary password; null or missing for a permanent one. */
  temporaryUntil?: Date | null
}
type Owner = Pick<User, 'email' | 'name'>

/** `isOverruled`: the password breaks a rule, and may be set all the same. */
export async function checkNewPassword(
  { passwordRules: { toOverrule, ...rules } }: Pick<AdminDeps, 'passwordRules'>,
  { password, allowWeak, isGenerated }: NewPassword,
  { email, name }: Owner,
): Promise<{ refusal: Failure | null; isOverruled: boolean }> {
  const flaw = isGenerated ? null : await findPasswordFlaw(password, { ...rules, email, name })
  // A password that is too long cannot be stored, and the page takes no shorter one.
  const isUsable = flaw !== 'too_long' && [...password].length >= PASSWORD_MIN_CHARACTERS
  const isOverruled = flaw !== null && isUsable && allowWeak === true
  if (flaw === null || isOverruled) return { refusal: null, isOverruled }
  const advice = isUsable ? `, or ${toOverrule}` : ''
  const problem = unfitPassword(describeFlaw(flaw, rules.minLength) + advice)
  const details = { code: 'weak-password', field: 'password', reason: flaw } as const
  return { refusal: new Failure(problem, details), isOverruled }
}

export async function hashNewPassword(
  deps: AdminDeps,
  given: GivenPassword,
  owner: Owner,
): Promise<{ passwordHash: string; change: Change }> {
  if ('passwordHash' in given) {
    return { passwordHash: given.passwordHash, change: changeNow(deps) }
  }
  const { refusal, isOverruled } = await checkNewPassword(deps, given, owner)
  if (refusal) throw refusal
  const passwordHash = await deps.hashPassword(given.password)
  return { passwordHash, change: { ...changeNow(deps), allowWeak: isOverruled } }
}
