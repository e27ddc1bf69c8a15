// The hash of a new password, as a second turn of the same claim after the current password was verified.
import type { User } from '../domain/user.ts'
import type { HashSlot } from '../hashing/hash-queue.ts'
import type { ShedReason } from './admission.ts'
import { findPasswordFlaw, type PasswordFlaw } from './password-rules.ts'
import type { Passwords } from './passwords.ts'

export type NewHashDeps = {
  passwords: Passwords
  passwordRules: { minLength: number; brandName: string }
}

type NewHash =
  /** Null if the attempt has no new password and needs none. */
  | { kind: 'ready'; newHash: string | null }
  | { kind: 'change-required'; userId: string }
  | { kind: 'unfit-password'; userId: string; flaw: PasswordFlaw }
  | { kind: 'shed'; reason: ShedReason }

export async function prepareNewHash(
  { passwords, passwordRules }: NewHashDeps,
  { password, newPassword }: { password: string; newPassword?: string },
  { id, email, name, temporaryUntil }: User,
  slot: HashSlot,
  finishByMs: () => number,
): Promise<NewHash> {
  if (newPassword === undefined) {
    return temporaryUntil === null
      ? { kind: 'ready', newHash: null }
      : { kind: 'change-required', userId: id }
  }
  // The route has judged what does not depend on the user. Before now, this would reveal the name.
  const flaw = await findPasswordFlaw(newPassword, {
    ...passwordRules,
    ...{ email, name, current: password },
  })
  if (flaw) return { kind: 'unfit-password', userId: id, flaw }
  const { job, toHash } = passwords.prepare(newPassword)
  const digest = await slot.run(finishByMs(), job)
  return digest ? { kind: 'ready', newHash: toHash(digest) } : { kind: 'shed', reason: 'too-late' }
}
