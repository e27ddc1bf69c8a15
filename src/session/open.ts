// Opens the session of a verified user: two tokens out, one transaction in between.
import { randomUUID } from 'node:crypto'
import { digestOf } from '../digest.ts'
import type { EndedSession, Store, ThrottleScope, UsedDevice, User } from '../storage/store.ts'
import { signAccessToken, type TokenAudience } from './access-token.ts'
import type { Keys } from './keys.ts'
import { ABANDONED_SECONDS, SESSION_MAX_SECONDS } from './lifetimes.ts'
import { issueRefreshToken } from './refresh-token.ts'
import { randomToken } from './secrets.ts'

export type OpenedSession = {
  id: string
  accessToken: string
  refreshToken: string
  /** For browsers only. */
  cookie: string | null
  expiresInSeconds: number
  /** The earlier sessions that this one ended. */
  ended: EndedSession[]
}

export type SessionDeps = {
  store: Store
  keys: Keys
  tokens: TokenAudience
  clock: () => Date
}

export type Opening = {
  user: User
  client: { ip: string; userAgent: string; isBrowser: boolean }
  device: UsedDevice | null
  /** The session cookie that the browser had before. */
  oldCookie: string | null
  maxSessionsPerUser: number
  scopes: ThrottleScope[]
}

/** Null if the user is no longer as verified; then nothing was opened and the attempt failed. */
export async function openSession(
  { store, keys, tokens, clock }: SessionDeps,
  { user, client, device, oldCookie, maxSessionsPerUser, scopes }: Opening,
): Promise<OpenedSession | null> {
  const now = clock()
  const id = randomUUID()
  const expiresAt = new Date(now.getTime() + SESSION_MAX_SECONDS * 1000)
  const cookie = client.isBrowser ? randomToken() : null
  const { accessKey, refreshKey } = keys.signingAt(now)

  const access = signAccessToken(accessKey, tokens, user, { id, expiresAt }, now)
  const refresh = issueRefreshToken(refreshKey, tokens.issuer, user.id, expiresAt, now)
  const ended = await store.openSession(
    user,
    {
      id,
      userId: user.id,
      createdAt: now,
      expiresAt,
      cookieDigest: cookie && digestOf(cookie),
      userAgent: client.userAgent,
      ip: client.ip,
    },
    refresh.stored,
    device,
    {
      // A program that sends a cookie keeps no session by it: it gets none in return.
      cookieDigest: client.isBrowser && oldCookie !== null ? digestOf(oldCookie) : null,
      usedBefore: new Date(now.getTime() - ABANDONED_SECONDS * 1000),
      maxSessions: maxSessionsPerUser,
    },
    scopes,
    now,
  )
  if (!ended) return null
  return { id, ...access, refreshToken: refresh.token, cookie, ended }
}
