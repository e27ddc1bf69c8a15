// The contract between the service and its storage: domain facts in, domain facts out. Every method
// is one atomic operation; no connection, transaction or SQL is visible through it.

export type LockedBy = 'throttle' | 'administrator'

export type User = {
  id: string
  email: string
  passwordHash: string
  name: string
  role: string
  isActive: boolean
  failedLoginAttempts: number
  lockedUntil: Date | null
  lockedBy: LockedBy | null
  createdAt: Date
  updatedAt: Date
}

export type NewUser = Pick<User, 'id' | 'email' | 'passwordHash' | 'name' | 'role' | 'createdAt'>

export type ScopeName = 'pair' | 'email' | 'client' | 'network' | 'device'

/** One budget that an attempt draws on. */
export type ThrottleScope = {
  name: ScopeName
  /** SHA-256 of the scope and what it counts, hex. */
  key: string
  /** SHA-256 of the email, so that an unlock finds every row of an account; null for clients and networks. */
  emailDigest: string | null
  /** In 15 minutes. */
  maxFailures: number
  /** Once these are spent, one failure in 15 minutes is left. Null: a day has no limit of its own. */
  maxDailyFailures: number | null
}

export type Reservation =
  /** With the user who has this e-mail, if anybody has. */
  | { kind: 'admitted'; user: User | null }
  /** Every free place is taken by an attempt that is still being verified; worth another try. */
  | {
      kind: 'busy'
      key: string
      /** How many of this scope may be verified at a time. */
      places: number
    }
  | {
      kind: 'refused'
      scope: ScopeName
      blockedUntil: Date
      /** The user whose `lockedUntil` this very attempt set. */
      lockedUserId: string | null
    }

export type Session = {
  id: string
  userId: string
  createdAt: Date
  lastUsedAt: Date
  /** However much it is used. */
  expiresAt: Date
  userAgent: string
  ip: string
}

export type NewSession = Omit<Session, 'lastUsedAt'> & {
  /** SHA-256 of the session cookie, hex; null for a client that takes no cookies. */
  cookieDigest: string | null
}

/** Which earlier sessions a login ends. */
export type Displaced = {
  /** SHA-256 of the session cookie that came with the login, hex. */
  cookieDigest: string | null
  /** Sessions of the same user and device that were last used before this moment are abandoned. */
  usedBefore: Date
  /** Most live sessions that a user may have, the new one included; the least recently used end. */
  maxSessions: number
}

export type EndedSession = {
  id: string
  userId: string
  reason: 'replaced' | 'abandoned' | 'limit'
}

/** Told of sessions that ended, a batch at a time. */
export type OnEnded = (sessionIds: string[]) => void

/** A session that has not ended, of a user who is active and not locked by an administrator. */
export type LiveSession = { session: Session; user: User; cookieUsedAt: Date | null }

/** Why a session is not live, for the log. */
export type SessionRefusal =
  | 'unknown-session'
  | 'session-ended'
  | 'session-expired'
  | 'user-inactive'
  | 'user-locked'

export type Refused<Reason extends string> = { kind: 'refused'; reason: Reason }
export type FoundSession = ({ kind: 'live' } & LiveSession) | Refused<SessionRefusal>

export type NewRefreshToken = {
  id: string
  /** SHA-256 of the token, hex: the token itself is never stored. */
  digest: string
  keyId: string
  issuedAt: Date
  expiresAt: Date
}

export type StoredRefreshToken = NewRefreshToken & { isRevoked: boolean }

export type PresentedRefreshToken = {
  kind: 'presented'
  live: LiveSession
  revokedAt: Date | null
  /** What took its place, if it was rotated. */
  successor: StoredRefreshToken | null
}

export type Device = {
  id: string
  userId: string
  createdAt: Date
  lastUsedAt: Date
  expiresAt: Date
  userAgent: string
}

/** A device to make known, or to note the use of; the token itself is never stored. */
export type UsedDevice =
  | { kind: 'new'; id: string; expiresAt: Date; digest: string }
  | { kind: 'known'; id: string }

/** How many rows a purge removed, and whether nothing is left to do. */
export type Purged = {
  isDone: boolean
  sessions: number
  refreshTokens: number
  devices: number
  throttleRows: number
}

export type MigrationState = { name: string; appliedAt: Date | null }

export interface Store {
  /** Takes a place in every scope, in none, or starts the wait of those whose failures are spent. */
  reserveAttempt(scopes: ThrottleScope[], email: string, now: Date): Promise<Reservation>
  /** Gives the places back: the attempt was never verified. */
  releaseAttempt(scopes: ThrottleScope[]): Promise<void>
  /**
   * Counts a failure in every scope and on the user; writes as much when there is no such user.
   * Returns the user's consecutive failures, 0 for an unknown one.
   */
  settleFailure(scopes: ThrottleScope[], userId: string | null, now: Date): Promise<number>
  /**
   * Opens the session, stores its refresh token and settles the attempt as a success, but only if
   * the user is still as verified: same hash, active, not locked by an administrator. Returns the
   * sessions that it ended. Otherwise it settles the attempt as a failure and returns null.
   */
  openSession(
    verified: Pick<User, 'id' | 'passwordHash'>,
    session: NewSession,
    refreshToken: NewRefreshToken,
    device: UsedDevice | null,
    displaced: Displaced,
    scopes: ThrottleScope[],
    now: Date,
  ): Promise<EndedSession[] | null>

  /** The token with this id and digest, if its session is live. */
  findRefreshToken(
    id: string,
    digest: string,
    now: Date,
  ): Promise<PresentedRefreshToken | Refused<SessionRefusal | 'unknown-token'>>
  /** Puts the successor in the token's place; of several that try at once, one gets true. */
  rotateRefreshToken(
    id: string,
    sessionId: string,
    successor: NewRefreshToken,
    now: Date,
  ): Promise<boolean>
  findLiveSession(id: string, now: Date): Promise<FoundSession>
  findLiveSessionByCookie(cookieDigest: string, now: Date): Promise<FoundSession>
  /** Notes that the session's cookie was used, which keeps the session at least until then. */
  touchCookie(sessionId: string, until: Date, now: Date): Promise<void>
  /**
   * Live sessions in the order of their logins, after the session `afterId`; null if the user has no
   * session of that id.
   */
  listLiveSessions(
    userId: string,
    page: { afterId: string | null; limit: number },
    now: Date,
  ): Promise<Session[] | null>
  countLiveSessions(userId: string, now: Date): Promise<number>
  /** Ends a session with its tokens; false if it was not live. */
  endSession(id: string, now: Date): Promise<boolean>
  /**
   * Ends all sessions of a user at once, but for the one that is kept; false, and nothing ended, if that
   * one is not live.
   */
  endSessions(userId: string, keptId: string | null, now: Date, onEnded?: OnEnded): Promise<boolean>

  /** The key of the device cookies' tags, 256 bits in hex: made with the tables, and never changed. */
  readDeviceKey(): Promise<string>
  /** The device with this digest, if it is known to the account with this e-mail. */
  findDevice(digest: string, email: string, now: Date): Promise<Device | null>
  listDevices(userId: string, now: Date): Promise<Device[]>
  /** False if there is no such device. */
  revokeDevice(id: string): Promise<boolean>

  findUserByEmail(email: string): Promise<User | null>
  /** Users in the order of their e-mail, after the given one. */
  listUsers(afterEmail: string, limit: number): Promise<User[]>
  countUsers(): Promise<number>
  /** The emails of all users as they are stored, page by page, in no particular order. */
  emailPages(): AsyncIterable<string[]>
  /** The hashes' costs, and how many users have each; what is no bcrypt hash counts as null. */
  countHashCosts(): Promise<{ cost: number | null; users: number }[]>

  /** False if the e-mail is taken. */
  insertUser(user: NewUser): Promise<boolean>
  /** Replaces a hash by a better one of the same password; does nothing if it changed meanwhile. */
  upgradePasswordHash(userId: string, oldHash: string, newHash: string, now: Date): Promise<void>
  /**
   * The four changes below return false if there is no such user; the first three end all sessions, in
   * the same step. Their rows are marked as ended afterwards, a batch at a time.
   */
  setPassword(email: string, passwordHash: string, now: Date, onEnded?: OnEnded): Promise<boolean>
  deactivateUser(email: string, now: Date, onEnded?: OnEnded): Promise<boolean>
  lockUser(email: string, until: Date, now: Date, onEnded?: OnEnded): Promise<boolean>
  activateUser(email: string, now: Date): Promise<boolean>
  /** Clears lock, failures and every wait of the e-mail; false if there was no such user. */
  unlockUser(email: string, emailDigest: string, now: Date): Promise<boolean>
  /**
   * Deactivates the user and ends all sessions in one step, then removes what belongs to the user, a
   * batch at a time, and the user last. One that was interrupted can be repeated.
   */
  deleteUser(email: string, onEnded?: OnEnded): Promise<boolean>

  /**
   * Removes a bounded number of rows that no longer mean anything; null if another instance is at it.
   */
  purge(now: Date): Promise<Purged | null>
  /** Throws unless the storage takes a write. */
  checkWritable(now: Date): Promise<void>
  /** The database's own clock; null where it shares this machine's. */
  readClock(): Promise<Date | null>
  /** Brings the schema up to date; several processes may call it at once. Returns what it applied. */
  migrate(): Promise<string[]>
  listMigrations(): Promise<MigrationState[]>
  close(): Promise<void>
}
