// How a user's state is told.
import type { Store } from '../../domain/store.ts'
import type { User } from '../../domain/user.ts'
import { Failure } from '../failures.ts'
import { toTime } from '../terminal/layout.ts'

/** An administrator's lock without a term. */
export const FOR_EVER = new Date('9999-12-31T23:59:59.999Z')

export function notFound(email: string): Failure {
  return new Failure(`There is no user ${email}.`)
}

/** The user, or a refusal. */
export async function demandUser(store: Store, email: string): Promise<User> {
  const user = await store.findUserByEmail(email)
  if (!user) throw notFound(email)
  return user
}

export function stateOf(
  { isActive, lockedUntil, lockedBy }: Pick<User, 'isActive' | 'lockedUntil' | 'lockedBy'>,
  now: Date,
): string {
  const isLocked = lockedUntil !== null && lockedUntil > now
  if (!isLocked) return isActive ? 'active' : 'inactive'
  const term = lockedUntil >= FOR_EVER ? '' : ` until ${toTime(lockedUntil)}`
  return `${isActive ? '' : 'inactive, '}locked by ${lockedBy ?? 'administrator'}${term}`
}
