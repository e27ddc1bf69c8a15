// Login attempts: the scopes that count their failures, and the operations of the store on them.
import type { NewRefreshToken } from './refresh-token.ts'
import type { FactorsChange, FailedStep, UsedProof } from './second-factor.ts'
import type { Session } from './session.ts'
import type { User } from './user.ts'

export type ScopeName = 'pair' | 'email' | 'client' | 'network' | 'device'

/** Failures that a scope allows in 15 minutes. A device always allows the same number. */
export type Budgets = Record<Exclude<ScopeName, 'device'>, number>

/** Failures are counted per scope. docs/throttle.md has the rules in a table. */
export type ThrottleScope = {
  name: ScopeName
  /** SHA-256 in hex of the scope's name and of the email, client, network or device that it counts. */
  key: string
  /** SHA-256 in hex of the email, by which an unlock finds its rows; null for client and network. */
  emailDigest: string | null
  /** Failures allowed in a window of 15 minutes. */
  maxFailures: number
  /** Failures allowed beyond one in 15 minutes, after which each window allows one; null for no daily limit. */
  maxDailyFailures: number | null
}

export type Reservation =
  /** The attempt is pending in every scope. `user` is null if no user has this email. */
  | { kind: 'admitted'; user: User | null }
  /**
   * Attempts that are still pending use up the failures that are left in a scope: try again later. `capacity`: how many
   * attempts of this scope may be pending at a time.
   */
  | { kind: 'busy'; user: User | null; key: string; capacity: number }
  /** The failures of a scope are used up. `lockedUserId`: the user that this attempt locked; null if it locked none. */
  | { kind: 'blocked'; scope: ScopeName; blockedUntil: Date; lockedUserId: string | null }

export type NewSession = Pick<Session, 'id' | 'expiresAt' | 'userAgent' | 'ip' | 'amr'>

/** The device of a login. A new one is stored, without its token; a known one gets its use and new expiry. */
export type UsedDevice = { id: string; expiresAt: Date } & (
  | { kind: 'new'; digest: string }
  | { kind: 'known' }
)

/** Which earlier sessions a login ends, or displaces. */
export type Displaced = {
  /** SHA-256 in hex of the session cookie that the login request carried. */
  cookieDigest: string | null
  /** Sessions of the same user and device that were last used before this moment are abandoned. */
  usedBefore: Date
  /** Most live sessions a user may have, the new one included; the least recently used ones end. */
  maxSessions: number
}

export type Opening = {
  /** The user at the time at which the password was verified. */
  user: Pick<User, 'id' | 'passwordHash' | 'factorsVersion'>
  /** What the login uses up, while there are fewer guesses than this; null if the user has no second factor. */
  proof?: { used: UsedProof; guessesBelow: number } | null
  session: NewSession & {
    /** SHA-256 of the session cookie in hex; null for a client without cookies. */
    cookieDigest: string | null
  }
  refreshToken: NewRefreshToken
  device: UsedDevice | null
  displaced: Displaced
  /** Set by a login that also replaces the password or changes the second factors. */
  change?: CredentialsChange | null
}

/** Ends all other sessions of the user and forgets all devices but one. */
export type CredentialsChange = {
  /** Null if the password stays. */
  newHash: string | null
  /** Null if the second factors stay. */
  factors: FactorsChange | null
  /** The device that came along; null if there was none. */
  keptDeviceId: string | null
}

export type EndedSession = {
  id: string
  userId: string
  reason: 'replaced' | 'abandoned' | 'limit' | 'password' | 'second-factor'
}

/** A login as the user is told of it later. */
export type NotedLogin = { userId: string; at: Date; ip: string; userAgent: string }

export interface AttemptStore {
  /** Makes the attempt pending in every scope or in none; blocks scopes whose failures are used up. */
  reserve(scopes: ThrottleScope[], email: string, now: Date): Promise<Reservation>
  /** Ends a pending attempt whose password was never verified. */
  release(scopes: ThrottleScope[]): Promise<void>
  /**
   * Turns a pending attempt into a failure, in every scope and of the user. An unknown email (null) costs
   * the same writes. Returns the user's consecutive failures and its guesses, 0 for an unknown email.
   */
  fail(
    scopes: ThrottleScope[],
    userId: string | null,
    now: Date,
    step?: FailedStep,
  ): Promise<{ failures: number; guesses: number }>
  /**
   * Ends a pending attempt whose password is right but opens no session. With a `login`, it becomes the user's last
   * one; otherwise the user's row stays as it is.
   */
  pass(scopes: ThrottleScope[], login?: NotedLogin): Promise<void>
  /**
   * Opens the session and ends the pending attempt as a success, in one transaction, if the user still has
   * the verified hash and the same second factors, is active and not locked by an administrator, and if the `proof` has
   * not been used meanwhile. With a `change`, also makes that, in the same transaction. Returns the sessions that it ended.
   * Otherwise returns null, and nothing was opened. An attempt with a proof is then settled as a failure; one without is
   * released, because its password was right.
   */
  succeed(opening: Opening, scopes: ThrottleScope[], now: Date): Promise<EndedSession[] | null>
}
