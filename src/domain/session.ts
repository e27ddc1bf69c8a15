// Sessions, and the operations of the store on them.
import type { Change } from './audit.ts'
import type { User } from './user.ts'

export type Session = {
  id: string
  userId: string
  createdAt: Date
  lastUsedAt: Date
  /** Absolute expiry. */
  expiresAt: Date
  userAgent: string
  ip: string
  /** How the user was authenticated: the claim of the same name (RFC 8176). */
  amr: readonly string[]
}

/** A session that is stored, live or not. */
export type StoredSession = Session & Pick<LiveSession, 'lastLogin'> & { endedAt: Date | null }

/** A refresh token that is stored: that of a login, or of a refresh. */
export type StoredToken = {
  id: string
  sessionId: string
  createdAt: Date
  expiresAt: Date
  /** When it was replaced, or its session ended. */
  revokedAt: Date | null
}

/** What answers and access tokens say of a user. */
export type SessionUser = Pick<User, 'id' | 'email' | 'name' | 'role' | 'createdAt'>

export type LastLogin = {
  at: Date
  userAgent: string
  ip: string
  /** Attempts between the two logins that were rejected after their password was checked. */
  failuresSince: number
  /** Wrong codes that came with the right password before the session's login. */
  guessesSince: number
}

/** A live session whose user is active and not locked by an administrator. */
export type LiveSession = {
  session: Session
  user: SessionUser
  cookieUsedAt: Date | null
  /** The user's login before this session's; null if none is known. Later logins do not change it. */
  lastLogin: LastLogin | null
  hasSecondFactor: boolean
}

/** Why a session is not live, for the log. */
export type SessionReason =
  | 'unknown-session'
  | 'session-ended'
  | 'session-expired'
  | 'user-inactive'
  | 'user-locked'
  | 'no-second-factor'

export type Invalid<Reason extends string> = { kind: 'invalid'; reason: Reason }

export function invalid<Reason extends string>(reason: Reason): Invalid<Reason> {
  return { kind: 'invalid', reason }
}

export type FoundSession = ({ kind: 'live' } & LiveSession) | Invalid<SessionReason>

/** Names a session by what a request has shown: a token or a cookie. */
export type SessionKey =
  | { kind: 'token'; sessionId: string; userId: string }
  /** `usedAfter`: the cookie is idle if it was last used at this moment or before. */
  | { kind: 'cookie'; digest: string; usedAfter: Date }

/** A session that was ended, and did not expire. */
export type SessionEnd = { id: string; endedAt: Date }

export type SessionPage = {
  afterId: string | null
  limit: number
  /** The last login first. */
  isLastFirst?: true
  /** Lists the others than this session. */
  othersOf?: string
}

export interface SessionStore {
  findLive(id: string, now: Date): Promise<FoundSession>
  findLiveByCookie(cookieDigest: string, now: Date): Promise<FoundSession>
  /**
   * Notes that the session's cookie was used, and postpones the session's idle expiry to `until`. Does nothing
   * if a parallel call has noted a use after `usedBefore`.
   */
  touchCookie(id: string, until: Date, usedBefore: Date, now: Date): Promise<void>
  /**
   * Live sessions ordered by login, after `afterId`; null if the user has no session of that id. The position
   * of `afterId`, which never changes, is read first; the list itself is one read.
   */
  listLive(userId: string, page: SessionPage, now: Date): Promise<Session[] | null>
  /** All sessions of a user, also those that have ended, in the order of their ids, after `afterId`. */
  listStored(userId: string, page: Pick<SessionPage, 'afterId' | 'limit'>): Promise<StoredSession[]>
  /** The refresh tokens of a user, ordered by session and time, after the given one. */
  listTokens(userId: string, after: StoredToken | null, limit: number): Promise<StoredToken[]>
  countLive(userId: string, now: Date): Promise<number>
  /** The last login; null if there was none. Its address and browser outlive its session: the purge removes them after 180 days. */
  findLastLogin(userId: string): Promise<LastLogin | null>
  /** Ends a session and revokes its tokens; false if it was not live. */
  end(id: string, now: Date): Promise<boolean>
  /** The same for the session of a token or cookie; null if there is no such live session. */
  endOf(key: SessionKey, now: Date): Promise<{ id: string; userId: string } | null>
  /**
   * Ends all sessions of a user except the one with `keptId`, and returns their ids. Null, with nothing ended, if
   * that one is not live.
   */
  endOthers(userId: string, keptId: string, now: Date): Promise<string[] | null>
  /** Ends a session and records it, see audit.ts; false if it was not live. */
  endByAdministrator(id: string, change: Change): Promise<boolean>
  /** The same for all sessions of a user. Returns how many ended; null for an unknown user. */
  endAll(userId: string, change: Change): Promise<number | null>
  /** Whether more than `known` of the sessions below ended at or after `from` and before `before`. */
  hasMoreEnded(known: number, from: Date, before: Date): Promise<boolean>
  /**
   * The sessions that ended at or after a moment, or from an earlier result on, in the order of their ends. They are known
   * for `ENDED_LISTED_SECONDS`.
   */
  listEnded(from: { endedAt: Date; id?: string }, limit: number): Promise<SessionEnd[]>
  /**
   * Ends all sessions of all users, in several transactions, the first of which records it. Returns how many ended.
   * Sessions of logins that come meanwhile may stay.
   */
  endEvery(change: Change): Promise<number>
}
