// The list of users, one page or all pages.
import type { User, UserFilter, UserPage, UserState } from '../../domain/user.ts'
import { userState } from '../../login/user-state.ts'
import type { AdminDeps } from './deps.ts'

const BATCH = 1_000

export type ShownUser = Omit<User, 'passwordHash'> & { state: UserState }
/** `next` is the `after` of the next page; null at the end. A page may be empty before the end. */
export type ShownUsers = { users: ShownUser[]; next: string | null }

export function toShownUser({ passwordHash: _, ...user }: User, now: Date): ShownUser {
  return { ...user, state: userState(user, now) }
}

export async function listShownUsers(
  { store, clock }: AdminDeps,
  filter: UserFilter,
  page: UserPage,
): Promise<ShownUsers> {
  const now = clock()
  const { users, next } = await store.users.list(filter, page, now)
  return { users: users.map(user => toShownUser(user, now)), next }
}

/** All pages, until `limit` users were listed. */
export async function* allUsers(
  deps: AdminDeps,
  filter: UserFilter,
  { after, limit }: UserPage,
): AsyncGenerator<ShownUsers> {
  for (let left = limit, from: string | null = after; from !== null && left > 0; ) {
    const page: ShownUsers = await listShownUsers(deps, filter, {
      after: from,
      limit: Math.min(left, BATCH),
    })
    yield page
    left -= page.users.length
    from = page.next
  }
}
