// Steps 7 and 8 of a login: signs both tokens, then opens the session in one call to the store.
import { randomUUID } from 'node:crypto'
import type {
  CredentialsChange,
  EndedSession,
  Opening,
  ThrottleScope,
  UsedDevice,
} from '../domain/attempt.ts'
import { ABANDONED_SECONDS } from '../domain/lifetimes.ts'
import type { Store } from '../domain/store.ts'
import type { User } from '../domain/user.ts'
import type { Keys } from '../keys/key-set.ts'
import { signAccessToken, type TokenSettings } from '../session/access-token.ts'
import { issueRefreshToken } from '../session/refresh-token.ts'
import { digestOf, randomToken } from '../system/identifiers.ts'

export type OpenedSession = {
  id: string
  accessToken: string
  refreshToken: string
  /** Null for clients that are not browsers. */
  cookie: string | null
  expiresInSeconds: number
  /** The earlier sessions that the login ended. */
  ended: EndedSession[]
}

export type OpenSessionDeps = {
  store: Pick<Store, 'attempts'>
  keys: Keys
  tokens: TokenSettings
  maxSessionsPerUser: number
  /** Absolute expiry: a session ends this long after its login, even if it is refreshed. */
  sessionMaxSeconds: number
  /** Begins the cookies of the console. A login there ends no session of the pages. */
  cookiePrefix?: string
  clock: () => Date
}

type Accepted = {
  user: User
  client: { ip: string; userAgent: string; isBrowser: boolean }
  device: UsedDevice | null
  /** The session cookie that the login request carried. */
  oldCookie: string | null
  proof?: Opening['proof']
  amr: readonly string[]
  change?: CredentialsChange | null
}

/** Null if the user has changed, or the proof was used, since they were verified. */
export async function openSession(
  deps: OpenSessionDeps,
  { user, client, device, oldCookie, proof = null, amr, change = null }: Accepted,
  scopes: ThrottleScope[],
): Promise<OpenedSession | null> {
  const { store, keys, tokens, maxSessionsPerUser, sessionMaxSeconds, cookiePrefix = '' } = deps
  const now = deps.clock()
  const abandonedMs = cookiePrefix === '' ? now.getTime() - ABANDONED_SECONDS * 1000 : 0
  const id = randomUUID()
  const expiresAt = new Date(now.getTime() + sessionMaxSeconds * 1000)
  const cookie = client.isBrowser ? cookiePrefix + randomToken() : null
  const { accessKey, refreshKey } = keys.signingAt(now)

  const access = signAccessToken(accessKey, tokens, user, { id, expiresAt, amr }, now)
  const holder = { userId: user.id, sessionId: id }
  const refresh = issueRefreshToken(refreshKey, tokens.issuer, holder, expiresAt, now)
  const opening = {
    user,
    proof,
    session: {
      ...{ id, expiresAt, amr },
      cookieDigest: cookie && digestOf(cookie),
      userAgent: client.userAgent,
      ip: client.ip,
    },
    refreshToken: refresh.stored,
    device,
    displaced: {
      // A program gets no new cookie, so the session of a cookie that it sends must not end.
      cookieDigest: client.isBrowser && oldCookie !== null ? digestOf(oldCookie) : null,
      usedBefore: new Date(abandonedMs),
      maxSessions: maxSessionsPerUser,
    },
    change,
  }
  const ended = await store.attempts.succeed(opening, scopes, now)
  return ended && { id, ...access, refreshToken: refresh.token, cookie, ended }
}
