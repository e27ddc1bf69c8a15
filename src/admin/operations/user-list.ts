// Users as administrators see them.
import type { User, UserFilter, UserPage, UserState } from '../../domain/user.ts'
import { userState } from '../../login/user-state.ts'
import type { AdminDeps } from './deps.ts'

export type ShownUser = Omit<User, 'passwordHash'> & { state: UserState }

export function toShownUser({ passwordHash: _, ...user }: User, now: Date): ShownUser {
  return { ...user, state: userState(user, now) }
}

export async function listShownUsers(
  { store, clock }: AdminDeps,
  filter: UserFilter,
  page: UserPage,
) {
  const now = clock()
  const { users, next } = await store.users.list(filter, page, now)
  return { users: users.map(user => toShownUser(user, now)), next }
}
