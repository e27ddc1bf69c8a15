// Refresh tokens: each belongs to a session, and is replaced by its successor when it is used.
import type { Invalid, LiveSession, Session, SessionReason } from './session.ts'

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
      /** The digest of the request id with which this token was issued; null if its caller sent none. */
      requestDigest: string | null
      /** The token that replaced it; null if none has. */
      successor: Successor | null
    }
  /** A token that was issued and has no row: it was replaced, and the purge removed its row. */
  | { kind: 'purged' }
  | Invalid<SessionReason>

/** What a new access token is made of. */
export type RefreshedSession = Pick<LiveSession, 'user' | 'hasSecondFactor'> & {
  session: Pick<Session, 'id' | 'expiresAt' | 'amr'>
}

export interface RefreshTokenStore {
  /** The token with this id and digest, which was issued here, if its session is live. */
  find(id: string, digest: string, now: Date): Promise<FoundRefreshToken>
  /**
   * Replaces the token by its successor, if it is not revoked and its session is live and does not end before
   * the successor. Otherwise nothing changes, and the token is returned as it was found. Of several parallel
   * calls one replaces the token; the others may have found it unrevoked.
   */
  use(
    id: string,
    digest: string,
    successor: NewRefreshToken & CallerDigests,
    now: Date,
  ): Promise<({ kind: 'replaced' } & RefreshedSession) | FoundRefreshToken>
}
