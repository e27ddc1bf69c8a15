// Opens the session of a verified user: two tokens out, one transaction in between.
import { randomUUID } from 'node:crypto'
import type { Store, ThrottleScope, User } from '../storage/store.ts'
import { signAccessToken } from './access-token.ts'
import type { Keys } from './keys.ts'
import { ACCESS_TOKEN_SECONDS, REFRESH_TOKEN_SECONDS, SESSION_MAX_SECONDS } from './lifetimes.ts'
import { digestOf, signRefreshToken } from './refresh-token.ts'

/** What of a User-Agent is kept; the column holds no more. */
const USER_AGENT_MAX_LENGTH = 256

export type OpenedSession = {
  id: string
  accessToken: string
  refreshToken: string
  expiresInSeconds: number
}

export type TokenAudience = { issuer: string; audience: string }

export type SessionDeps = {
  store: Store
  keys: Keys
  tokens: TokenAudience
  clock: () => Date
}

/** Null if the user is no longer as verified; then nothing was opened and the attempt failed. */
export async function openSession(
  { store, keys, tokens, clock }: SessionDeps,
  user: User,
  client: { ip: string; userAgent: string },
  scopes: ThrottleScope[],
): Promise<OpenedSession | null> {
  const now = clock()
  // Tokens carry whole seconds, and so do the rows: a token can then be derived from its row again.
  const issuedAt = Math.floor(now.getTime() / 1000)
  const sessionId = randomUUID()
  const refresh = { id: randomUUID(), issuedAt, expiresAt: issuedAt + REFRESH_TOKEN_SECONDS }
  const { accessKey, refreshKey } = keys.signingAt(now)

  const [accessToken, refreshToken] = await Promise.all([
    signAccessToken(accessKey, tokens, user, sessionId, issuedAt),
    signRefreshToken(refreshKey, tokens.issuer, user.id, refresh),
  ])
  const opened = await store.openSession(
    user,
    {
      id: sessionId,
      userId: user.id,
      createdAt: now,
      expiresAt: new Date(now.getTime() + SESSION_MAX_SECONDS * 1000),
      userAgent: client.userAgent.slice(0, USER_AGENT_MAX_LENGTH),
      ip: client.ip,
    },
    {
      id: refresh.id,
      digest: digestOf(refreshToken),
      keyId: refreshKey.keyId,
      expiresAt: new Date(refresh.expiresAt * 1000),
    },
    scopes,
    now,
  )
  return opened
    ? { id: sessionId, accessToken, refreshToken, expiresInSeconds: ACCESS_TOKEN_SECONDS }
    : null
}
