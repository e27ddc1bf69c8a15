// The state of a user in one word. The list of users has the same rules in SQL (`storage/sql/list-users.ts`).
import { WINDOW_MS } from '../domain/throttle.ts'
import { isLockedByAdministrator, type User, type UserState } from '../domain/user.ts'

export function userState(
  user: Pick<User, 'isActive' | 'lockedUntil' | 'lockedBy'>,
  now: Date,
): UserState {
  if (!user.isActive) return 'inactive'
  if (isLockedByAdministrator(user, now)) return 'locked'
  const leftMs = (user.lockedUntil?.getTime() ?? 0) - now.getTime()
  // A lock of the throttle that ends later was written by a wrong clock.
  return user.lockedBy === 'throttle' && leftMs > 0 && leftMs <= 2 * WINDOW_MS
    ? 'waiting'
    : 'active'
}
