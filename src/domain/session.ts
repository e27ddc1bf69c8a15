// Sessions and refresh tokens, and the operations on them that the store offers.
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
}

/** What answers and access tokens say of a user. */
export type SessionUser = Pick<User, 'id' | 'email' | 'name' | 'role' | 'createdAt'>

export type LastLogin = {
  at: Date
  userAgent: string
  ip: string
  /** Attempts between the two logins that were rejected after their password was checked. */
  failuresSince: number
}

/** A live session whose user is active and not locked by an administrator. */
export type LiveSession = {
  session: Session
  user: SessionUser
  cookieUsedAt: Date | null
  /** The user's login before this session's; null if none is known. Later logins do not change it. */
  lastLogin: LastLogin | null
}

/** Why a session is not live, for the log. */
export type SessionReason =
  | 'unknown-session'
  | 'session-ended'
  | 'session-expired'
  | 'user-inactive'
  | 'user-locked'

export type Invalid<Reason extends string> = { kind: 'invalid'; reason: Reason }
export type FoundSession = ({ kind: 'live' } & LiveSession) | Invalid<SessionReason>

export type NewRefreshToken = {
  id: string
  /** SHA-256 of the token in hex. The token itself is never stored. */
  digest: string
  keyId: string
  issuedAt: Date
  expiresAt: Date
}

/** The caller of a refresh. Stored with the token that it got. */
export type CallerDigests = {
  /** Null if the caller sent no request id. */
  requestDigest: string | null
  /** Null if an instance of a release that stored no callers has refreshed. */
  clientDigest: string | null
}

type Successor = Omit<NewRefreshToken, 'digest'> & CallerDigests & { isRevoked: boolean }

export type FoundRefreshToken =
  | {
      kind: 'found'
      live: LiveSession
      revokedAt: Date | null
      /** Of the refresh that issued this token; null if its caller sent no request id. */
      requestDigest: string | null
      /** The token that replaced it; null if none has. */
      successor: Successor | null
    }
  | Invalid<SessionReason | 'unknown-token'>

/** Names a session by what a request has shown: a token or a cookie. */
export type SessionKey =
  | { kind: 'access-token'; sessionId: string; userId: string }
  /** A replaced token, too. */
  | { kind: 'refresh-token'; id: string; digest: string }
  /** `usedAfter`: the cookie is idle if it was last used at this moment or before. */
  | { kind: 'cookie'; digest: string; usedAfter: Date }

export interface SessionStore {
  /** The token with this id and digest, if its session is live. */
  findRefreshToken(id: string, digest: string, now: Date): Promise<FoundRefreshToken>
  /**
   * Replaces the token by its successor, if it is not revoked and its session is live and does not end before
   * the successor. Otherwise nothing changes, and the token is returned as it was found. Of several parallel
   * calls one replaces the token; the others may have found it unrevoked.
   */
  useRefreshToken(
    id: string,
    digest: string,
    successor: NewRefreshToken & CallerDigests,
    now: Date,
  ): Promise<({ kind: 'replaced' } & LiveSession) | FoundRefreshToken>
  findLiveSession(id: string, now: Date): Promise<FoundSession>
  findLiveSessionByCookie(cookieDigest: string, now: Date): Promise<FoundSession>
  /**
   * Notes that the session's cookie was used, and postpones the session's idle expiry to `until`. Does nothing
   * if a parallel call has noted a use after `usedBefore`.
   */
  touchCookie(sessionId: string, until: Date, usedBefore: Date, now: Date): Promise<void>
  /**
   * Live sessions ordered by login, after `afterId`; null if the user has no session of that id. The position
   * of `afterId`, which never changes, is read first; the list itself is one read.
   */
  listLiveSessions(
    userId: string,
    page: { afterId: string | null; limit: number },
    now: Date,
  ): Promise<Session[] | null>
  countLiveSessions(userId: string, now: Date): Promise<number>
  /** The newest login that is known; those of older versions only by sessions that are still stored. */
  findLastLogin(userId: string): Promise<Date | null>
  /** Ends a session and revokes its tokens; false if it was not live. */
  endSession(id: string, now: Date): Promise<boolean>
  /** The same for the session of a token or cookie; null if there is no such live session. */
  endSessionOf(key: SessionKey, now: Date): Promise<{ id: string; userId: string } | null>
  /**
   * Ends all sessions of a user except the one with `keptId`, and returns their ids. Null, with nothing ended, if
   * that one is not live.
   */
  endOtherSessions(userId: string, keptId: string, now: Date): Promise<string[] | null>
}
