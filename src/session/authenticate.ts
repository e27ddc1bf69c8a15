// Whose session a request belongs to: by access token, by refresh token or by cookie.

import { digestOf } from '../digest.ts'
import type { LiveSession, Refused, SessionRefusal } from '../storage/store.ts'
import { readAccessToken } from './access-token.ts'
import { COOKIE_IDLE_SECONDS, COOKIE_TOUCH_SECONDS } from './lifetimes.ts'
import type { SessionDeps } from './open.ts'
import { readRefreshToken } from './refresh-token.ts'
import type { TokenRefusal } from './token-refusal.ts'

/** Why a credential stands for no session, for the log: the caller is told the same for all. */
export type AccessRefusal =
  | TokenRefusal
  | SessionRefusal
  | 'unknown-token'
  | 'wrong-user'
  | 'cookie-idle'

export type Authentication = ({ kind: 'live' } & LiveSession) | Refused<AccessRefusal>

/** Here, unlike elsewhere, an access token counts only while its session is live. */
export async function authenticateByToken(
  { store, keys, tokens, clock }: SessionDeps,
  accessToken: string,
): Promise<Authentication> {
  const now = clock()
  const claims = await readAccessToken(keys, tokens, accessToken, now)
  if (claims.kind === 'refused') return claims
  const found = await store.findLiveSession(claims.sessionId, now)
  if (found.kind === 'refused' || found.user.id === claims.userId) return found
  return { kind: 'refused', reason: 'wrong-user' }
}

/** Also by a token that was replaced: whoever logs out with an old one means the session. */
export async function authenticateByRefreshToken(
  { store, keys, tokens, clock }: SessionDeps,
  refreshToken: string,
): Promise<Authentication> {
  const now = clock()
  const token = await readRefreshToken(keys, tokens.issuer, refreshToken, now)
  if (token.kind === 'refused') return token
  const presented = await store.findRefreshToken(token.id, digestOf(refreshToken), now)
  return presented.kind === 'refused' ? presented : { kind: 'live', ...presented.live }
}

/** Using the cookie keeps it alive, but not the session beyond its own limits. */
export async function authenticateByCookie(
  { store, clock }: SessionDeps,
  cookie: string,
): Promise<Authentication> {
  const now = clock()
  const found = await store.findLiveSessionByCookie(digestOf(cookie), now)
  if (found.kind === 'refused') return found
  const idleSeconds = (now.getTime() - (found.cookieUsedAt?.getTime() ?? 0)) / 1000
  if (idleSeconds >= COOKIE_IDLE_SECONDS) return { kind: 'refused', reason: 'cookie-idle' }
  if (idleSeconds >= COOKIE_TOUCH_SECONDS) {
    const until = new Date(now.getTime() + COOKIE_IDLE_SECONDS * 1000)
    await store.touchCookie(found.session.id, until, now)
  }
  return found
}
