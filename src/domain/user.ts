// Users and their devices, and the operations that an administrator needs of the store.
import type { Change } from './audit.ts'

/** A lock without a `lockedBy` counts as an administrator's. */
export type LockedBy = 'throttle' | 'administrator'

export type User = {
  id: string
  email: string
  passwordHash: string
  name: string
  role: string
  isActive: boolean
  /** Consecutive failures: a successful login sets them to 0. */
  failedLoginAttempts: number
  lockedUntil: Date | null
  lockedBy: LockedBy | null
  createdAt: Date
  updatedAt: Date
}

export type NewUser = Pick<User, 'id' | 'email' | 'passwordHash' | 'name' | 'role'>

/** A browser that has logged in to the account before. */
export type Device = {
  id: string
  userId: string
  createdAt: Date
  lastUsedAt: Date
  expiresAt: Date
  userAgent: string
}

/** Called with the ids of sessions that ended or, by a deletion, were removed, one batch at a time. */
export type OnEnded = (sessionIds: string[]) => void

export interface UserStore {
  findUserByEmail(email: string): Promise<User | null>
  /** Users ordered by email, after the given one. */
  listUsers(afterEmail: string, limit: number): Promise<User[]>
  countUsers(): Promise<number>
  /** The emails of all users as they are stored, in no particular order. Not atomic: one read per page. */
  emailPages(): AsyncIterable<string[]>
  /** How many users have a hash of each cost; null for text that is not a bcrypt hash. */
  countHashCosts(): Promise<{ cost: number | null; users: number }[]>

  // Every change below is recorded in the same transaction, see audit.ts; one that changes nothing is not.

  /** False if the email is taken. */
  insertUser(user: NewUser, change: Change): Promise<boolean>
  activateUser(email: string, change: Change): Promise<boolean>
  /** Clears the user's lock, failures and blocks. */
  unlockUser(email: string, change: Change): Promise<boolean>
  /**
   * Each of the next four ends all sessions of the user in the same transaction as the change. The rows
   * of these sessions are marked as ended after it, in batches that `onEnded` reports: a process that dies
   * in between leaves rows unmarked, and no session live. All changes return false for an unknown email.
   * `setPassword` also removes the user's devices, in the same transaction.
   */
  setPassword(
    email: string,
    passwordHash: string,
    change: Change,
    onEnded?: OnEnded,
  ): Promise<boolean>
  deactivateUser(email: string, change: Change, onEnded?: OnEnded): Promise<boolean>
  lockUser(email: string, until: Date, change: Change, onEnded?: OnEnded): Promise<boolean>
  endUserSessions(email: string, change: Change, onEnded?: OnEnded): Promise<boolean>
  /** False if there is no such live session. */
  endUserSession(id: string, change: Change): Promise<boolean>
  /**
   * Not atomic: deactivates the user and ends all sessions in one transaction, then removes sessions,
   * devices and the user in batches. Calling it again finishes a deletion that was interrupted, and
   * records it again.
   */
  deleteUser(email: string, change: Change, onEnded?: OnEnded): Promise<boolean>

  listDevices(userId: string, now: Date): Promise<Device[]>
  /** False if there is no such device. */
  revokeDevice(id: string, change: Change): Promise<boolean>
}
