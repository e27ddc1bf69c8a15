// Users that come from a file, and how the store takes them.
import type { Change } from './audit.ts'
import type { User, UserDetails } from './user.ts'

type Given = Omit<UserDetails, 'role'> & Pick<User, 'id' | 'passwordHash'>
export type ImportedUser = Given & {
  /** False if the id was made for this import: an existing user keeps its own. */
  isIdGiven: boolean
  /** The name was made from the email: an existing user keeps its own. */
  isNameMade?: boolean
  /** The same as in `Change`, but for this user. */
  allowWeak?: boolean
  /** Null, here and below: a new user gets the default, an existing one keeps what it has. */
  role: string | null
  isActive: boolean | null
  createdAt: Date | null
  /** Belongs to the hash: an existing user with this hash keeps what it has. */
  temporaryUntil?: Date | null
  /** The end of an administrator's lock; null for no such lock. An existing user keeps it if undefined. */
  lockedUntil: Date | null | undefined
}

export type ImportOutcome =
  | 'added'
  | 'updated'
  | 'unchanged'
  /** Nothing was changed: another user has the id, or the user has another id. */
  | 'other-id'

export type ImportOptions = {
  /** Existing users are changed where they differ. */
  mayUpdate: boolean
  /** Nothing is written; the outcomes are what they would be. */
  isDryRun: boolean
}

export interface ImportStore {
  /**
   * Adds users, which should be ordered by email, and returns the outcome of each. One transaction, unless
   * users are deleted at the same time. A changed hash ends all sessions and removes all devices, as
   * `setPassword` does; a hash that the stored one has replaced at a login counts as the same.
   */
  run(users: ImportedUser[], options: ImportOptions, change: Change): Promise<ImportOutcome[]>
}
