// Users, and the operations of the store on them.
import type { Change } from './audit.ts'

/** A lock without a `lockedBy` counts as an administrator's. */
export type LockedBy = 'throttle' | 'administrator'

/** What an administrator gives of a user. None is optional, so that the compiler names every place that lacks it. */
export type UserDetails = { email: string; name: string; role: string }

export type User = UserDetails & {
  id: string
  passwordHash: string
  isActive: boolean
  /** Consecutive failures: a successful login sets them to 0. */
  failedLoginAttempts: number
  lockedUntil: Date | null
  lockedBy: LockedBy | null
  /** Until then the password is good for one thing, setting another one; null if it is not temporary. */
  temporaryUntil: Date | null
  /** Rises with every change of the user's second factors. */
  factorsVersion: number
  /** Wrong codes that were sent with the right password, see `GUESSES`. */
  failedSecondSteps: number
  /** How far the last code that came too early (positive) or too late was from the time; null if the last one fitted. */
  codeOffsetSeconds: number | null
  createdAt: Date
  updatedAt: Date
}

/**
 * Ignores locks set by the throttle; a lock without `lockedBy` counts as an administrator's. The same rule
 * in SQL is `isNotLockedByAdministrator` in `storage/sql/user-rows.ts`.
 */
export function isLockedByAdministrator(
  user: Pick<User, 'lockedUntil' | 'lockedBy'>,
  now: Date,
): boolean {
  if (user.lockedUntil === null || user.lockedBy === 'throttle') return false
  // Negated, so that an invalid date counts as locked.
  return !(user.lockedUntil <= now)
}

/** A new user gets this role if none is given. */
export const DEFAULT_ROLE = 'user'

export type NewUser = UserDetails &
  Pick<User, 'id' | 'passwordHash'> &
  Partial<Pick<User, 'temporaryUntil'>>

export const USER_STATES = ['active', 'inactive', 'locked', 'waiting'] as const
/**
 * `inactive`: not active, locked or not. `locked`: by an administrator. `waiting`: locked by the throttle.
 * `active`: none of these.
 */
export type UserState = (typeof USER_STATES)[number]

/** The kinds of second factors that a user has. */
export const SECOND_FACTORS = ['none', 'totp', 'passkey', 'totp+passkey'] as const
export const SECOND_FACTOR_FILTERS = ['none', 'any'] as const

export type UserFilter = {
  /** A part of the email or the name; ASCII letters match in upper and lower case. */
  search?: string
  role?: string
  state?: UserState
  secondFactor?: (typeof SECOND_FACTOR_FILTERS)[number]
  /** No login since then; of a user without any, not added since then either. */
  dormantSince?: Date
}
export type UserPage = { after: string; limit: number }
/** `next` is the `after` of the next page; null at the end. */
export type ListedUsers = { users: ListedUser[]; next: string | null }
/** `lastLoginAt` is null if none is known. */
export type ListedUser = User & {
  lastLoginAt: Date | null
  secondFactor: (typeof SECOND_FACTORS)[number]
}

/** What an administrator may change of a user, apart from its password and its state. */
export type UserFields = Partial<UserDetails>

export interface UserStore {
  findByEmail(email: string): Promise<User | null>
  findById(id: string): Promise<User | null>
  /**
   * Users ordered by email, after the given one. One call looks at a bounded number of users: a page may have
   * fewer than `limit`, even none, while `next` is not null. Two reads.
   */
  list(filter: UserFilter, page: UserPage, now: Date): Promise<ListedUsers>
  count(): Promise<number>
  /** A page of the emails of users, after the given one, in order; empty at the end. */
  listEmails(after: string): Promise<string[]>
  /** How many users have a hash of each cost; null for text that is not a bcrypt hash. */
  countHashCosts(): Promise<{ cost: number | null; users: number }[]>
  /** Replaces the hash by a new one of the same password; does nothing if it is no longer `oldHash`. */
  upgradePasswordHash(id: string, oldHash: string, newHash: string, now: Date): Promise<void>

  // Every change below is recorded in the same transaction, see audit.ts; one that changes nothing is not. It names
  // the user by its id, because an email may go to another user meanwhile, and returns the user as it is stored then; null
  // for an unknown id, and for a user that has changed since it was `seen`.

  /** False if the email is taken. */
  insert(user: NewUser, change: Change): Promise<boolean>
  /**
   * Changes the given fields. Sessions, devices and the password stay; failures and blocks stay with the old
   * email, except those of known devices. `taken`: another user has the new email.
   */
  set(
    id: string,
    fields: UserFields,
    change: Change,
  ): Promise<{ user: User; isChanged: boolean } | 'unknown' | 'taken'>
  activate(id: string, change: Change): Promise<User | null>
  /** Ends all sessions, like `lock` and `setPassword`. */
  deactivate(id: string, change: Change): Promise<User | null>
  lock(id: string, until: Date, change: Change): Promise<User | null>
  /** Clears the user's lock, failures and blocks. */
  unlock(id: string, change: Change): Promise<User | null>
  /** Also removes the user's devices. The password is temporary if `temporaryUntil` is given. */
  setPassword(
    id: string,
    passwordHash: string,
    change: Change,
    temporaryUntil?: Date | null,
  ): Promise<User | null>
  /**
   * It is not atomic: it deactivates the user and ends all sessions in one transaction, then removes sessions,
   * devices and the user in batches. Calling it again finishes a deletion that was interrupted, and
   * records it again. Returns how many sessions ended; null for an unknown id.
   */
  delete(id: string, change: Change): Promise<number | null>
}
