// A user as administrators name and see it.
import type { User, UserState } from '../../domain/user.ts'
import { canonicalEmail, problemWithEmail } from '../../login/credentials.ts'
import { userState } from '../../login/user-state.ts'
import { userNotFound } from '../../system/failures.ts'
import { isUuid } from '../../system/identifiers.ts'
import type { AdminDeps } from './deps.ts'

/** The end of a lock without a term. */
export const FOR_EVER = new Date('9999-12-31T23:59:59.999Z')

export type ShownUser = Omit<User, 'passwordHash' | 'factorsVersion'> & { state: UserState }

export function toShownUser(
  { passwordHash: _, factorsVersion: __, ...user }: User,
  now: Date,
): ShownUser {
  return { ...user, state: userState(user, now) }
}

/** The user with this email or id. */
export async function findUser({ store }: Pick<AdminDeps, 'store'>, typed: string): Promise<User> {
  const email = canonicalEmail(typed)
  const user = isUuid(typed)
    ? await store.users.findById(typed.toLowerCase())
    : problemWithEmail(email)
      ? null
      : await store.users.findByEmail(email)
  if (!user) throw userNotFound(email)
  return user
}
