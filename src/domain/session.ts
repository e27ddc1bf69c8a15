// Sessions and refresh tokens, and the operations on them that the store offers.
import type { OnEnded, User } from './user.ts'

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

/** A live session whose user is active and not locked by an administrator. */
export type LiveSession = { session: Session; user: User; cookieUsedAt: Date | null }

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

type StoredRefreshToken = NewRefreshToken & { isRevoked: boolean }

export type FoundRefreshToken =
  | {
      kind: 'found'
      live: LiveSession
      revokedAt: Date | null
      /** The token that replaced it; null if none has. */
      successor: StoredRefreshToken | null
    }
  | Invalid<SessionReason | 'unknown-token'>

export interface SessionStore {
  /**
   * The token with this id and digest, if its session is live. Not atomic: reads the token, the session, the
   * user and the successor one after the other. `rotateRefreshToken` checks token and session again.
   */
  findRefreshToken(id: string, digest: string, now: Date): Promise<FoundRefreshToken>
  /**
   * Replaces the token by its successor; false if the token is revoked or its session is not live. Of
   * several parallel calls one returns true.
   */
  rotateRefreshToken(
    id: string,
    sessionId: string,
    successor: NewRefreshToken,
    now: Date,
  ): Promise<boolean>
  /**
   * Not atomic: the next two read the session, then its user. A session that ends between the two reads may
   * still be returned.
   */
  findLiveSession(id: string, now: Date): Promise<FoundSession>
  findLiveSessionByCookie(cookieDigest: string, now: Date): Promise<FoundSession>
  /** Notes that the session's cookie was used, and postpones the session's idle expiry to `until`. */
  touchCookie(sessionId: string, until: Date, now: Date): Promise<void>
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
  /** Ends a session and revokes its tokens; false if it was not live. */
  endSession(id: string, now: Date): Promise<boolean>
  /**
   * Ends all sessions of a user in one transaction, except the one with `keptId`. False, with nothing
   * ended, if that one is not live. The rows are marked as ended after it, in batches.
   */
  endSessions(userId: string, keptId: string | null, now: Date, onEnded?: OnEnded): Promise<boolean>
}
