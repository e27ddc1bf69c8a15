// The list of users, one page or all pages.
import type { User, UserFilter, UserPage, UserState } from '../../domain/user.ts'
import { userState } from '../../login/user-state.ts'
import { Refusal } from '../failures.ts'
import type { AdminDeps } from './deps.ts'

const BATCH = 1_000
/** The longest email. */
const SEARCH_MAX_LENGTH = 254

export type ShownUser = Omit<User, 'passwordHash'> & { state: UserState }
/** `next` is the `after` of the next page; null at the end. A page may be empty before the end. */
export type ShownUsers = { users: ShownUser[]; next: string | null }

export function toShown({ passwordHash: _, ...user }: User, now: Date): ShownUser {
  return { ...user, state: userState(user, now) }
}

export async function listUsers(
  { store, clock }: AdminDeps,
  filter: UserFilter,
  page: UserPage,
): Promise<ShownUsers> {
  const problem = [filter.search, filter.role, page.after].some(text => !isStorable(text ?? ''))
  if (problem) {
    throw new Refusal('invalid', 'A filter is too long or has characters that cannot be stored.')
  }
  const now = clock()
  const { users, next } = await store.users.list(filter, page, now)
  return { users: users.map(user => toShown(user, now)), next }
}

/** All pages, until `limit` users were listed. */
export async function* allUsers(
  deps: AdminDeps,
  filter: UserFilter,
  { after, limit }: UserPage,
): AsyncGenerator<ShownUsers> {
  for (let left = limit, from: string | null = after; from !== null && left > 0; ) {
    const page: ShownUsers = await listUsers(deps, filter, {
      after: from,
      limit: Math.min(left, BATCH),
    })
    yield page
    left -= page.users.length
    from = page.next
  }
}

/** Other text can be no part of an email, a name or a role, and PostgreSQL would reject it. */
function isStorable(text: string): boolean {
  return text.length <= SEARCH_MAX_LENGTH && text.isWellFormed() && !text.includes('\0')
}
