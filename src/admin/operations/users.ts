// Operations on one user. Each throws a Failure if it cannot be done.
import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type { NewUser, User, UserFields } from '../../domain/user.ts'
import { BLOCK_CACHED_MS } from '../../login/throttle.ts'
import { emailTaken, userNotFound, WrongUse } from '../failures.ts'
import { type AdminDeps, changeNow } from './deps.ts'
import { type GivenPassword, hashNewPassword } from './new-password.ts'

/** The end of a lock without a term. */
export const FOR_EVER = new Date('9999-12-31T23:59:59.999Z')

export async function requireUser({ store }: AdminDeps, email: string): Promise<User> {
  const user = await store.users.findByEmail(email)
  if (!user) throw userNotFound(email)
  return user
}

export async function addUser(
  deps: AdminDeps,
  { email, name, role }: Pick<NewUser, 'email' | 'name' | 'role'>,
  given: GivenPassword,
): Promise<{ id: string }> {
  const { passwordHash, change } = await hashNewPassword(deps, given, { email, name })
  const { temporaryUntil = null } = given
  const user = { id: randomUUID(), email, name, role, passwordHash, temporaryUntil }
  if (!(await deps.store.users.insert(user, change))) throw emailTaken(email)
  return user
}

/** Changes the given fields; false if they had these values already. Sessions and devices stay. */
export async function changeUser(
  deps: AdminDeps,
  user: User,
  fields: UserFields,
): Promise<boolean> {
  const outcome = await deps.store.users.set(user.id, fields, changeNow(deps))
  if (outcome === 'unknown') throw userNotFound(user.email)
  if (outcome === 'taken') throw emailTaken(fields.email ?? user.email)
  return outcome === 'changed'
}

/** Ends all sessions and removes all devices of the user. */
export async function setPassword(
  deps: AdminDeps,
  user: User,
  given: GivenPassword,
): Promise<void> {
  const { passwordHash, change } = await hashNewPassword(deps, given, user)
  const { temporaryUntil = null } = given
  const isSet = await deps.store.users.setPassword(user.id, passwordHash, change, temporaryUntil)
  if (!isSet) throw userNotFound(user.email)
}

export async function activateUser(deps: AdminDeps, { id, email }: User): Promise<void> {
  if (!(await deps.store.users.activate(id, changeNow(deps)))) throw userNotFound(email)
}

/** Ends all sessions of the user. */
export async function deactivateUser(deps: AdminDeps, { id, email }: User): Promise<void> {
  if (!(await deps.store.users.deactivate(id, changeNow(deps)))) throw userNotFound(email)
}

/** Ends all sessions of the user. */
export async function lockUser(deps: AdminDeps, { id, email }: User, until: Date): Promise<void> {
  const change = changeNow(deps)
  if (until <= change.at) throw new WrongUse('A lock must end in the future.', 'until')
  if (!(await deps.store.users.lock(id, until, change))) throw userNotFound(email)
}

/** Clears the lock, failures and blocks of the user. */
export async function unlockUser(deps: AdminDeps, { id, email }: User): Promise<void> {
  if (!(await deps.store.users.unlock(id, changeNow(deps)))) throw userNotFound(email)
  // After this time no running instance has an earlier block in its cache.
  await sleep(BLOCK_CACHED_MS)
}

export async function removeUser(deps: AdminDeps, { id, email }: User): Promise<void> {
  if ((await deps.store.users.delete(id, changeNow(deps))) === null) throw userNotFound(email)
}
