// One-time codes, by which applications of other sites log in.
import type { EndedSession, NewSession } from './attempt.ts'
import type { NewRefreshToken } from './refresh-token.ts'
import type { Invalid, LiveSession, SessionReason } from './session.ts'

type Code = {
  /** The listed address of the application, without its query. */
  callback: string
  /** SHA-256 of the application's verifier, in base64url. */
  challenge: string
  expiresAt: Date
}

type FoundCode =
  /** `live` is the session of the page that asked for the code. */
  ({ kind: 'found'; live: LiveSession } & Code) | Invalid<SessionReason | 'unknown-code'>

/** The session that a code opens, for the user of the page. */
export type CodeOpening = {
  userId: string
  /** Its `amr` is that of the page. */
  session: Omit<NewSession, 'amr'>
  refreshToken: NewRefreshToken
  maxSessions: number
}

export interface CodeStore {
  /** `digest`: SHA-256 of the code in hex. The code itself is never stored. */
  insert(digest: string, sessionId: string, code: Code): Promise<void>
  find(digest: string, now: Date): Promise<FoundCode>
  /**
   * Removes the code and opens a session, in one transaction, if the session of the page is still live and its user
   * active and not locked by an administrator. Returns the sessions beyond the limit, which it ended; null, with
   * nothing opened, if the code was used meanwhile or its session is not live any more.
   */
  redeem(digest: string, opening: CodeOpening, now: Date): Promise<EndedSession[] | null>
}
