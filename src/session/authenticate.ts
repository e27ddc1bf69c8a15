// Whose session a request belongs to: by access token, by refresh token or by cookie.

import { digestOf } from '../digest.ts'
import type { LiveSession } from '../storage/store.ts'
import { readAccessToken } from './access-token.ts'
import { COOKIE_IDLE_SECONDS, COOKIE_TOUCH_SECONDS } from './lifetimes.ts'
import type { SessionDeps } from './open.ts'
import { readRefreshToken } from './refresh-token.ts'

/** Here, unlike elsewhere, an access token counts only while its session is live. */
export async function authenticateByToken(
  { store, keys, tokens, clock }: SessionDeps,
  accessToken: string,
): Promise<LiveSession | null> {
  const now = clock()
  const claims = await readAccessToken(keys, tokens, accessToken, now)
  if (!claims) return null
  const live = await store.findLiveSession(claims.sessionId, now)
  return live?.user.id === claims.userId ? live : null
}

/** Also by a token that was replaced: whoever logs out with an old one means the session. */
export async function authenticateByRefreshToken(
  { store, keys, tokens, clock }: SessionDeps,
  refreshToken: string,
): Promise<LiveSession | null> {
  const now = clock()
  const id = await readRefreshToken(keys, tokens.issuer, refreshToken, now)
  const presented = id && (await store.findRefreshToken(id, digestOf(refreshToken), now))
  return presented ? presented.live : null
}

/** Using the cookie keeps it alive, but not the session beyond its own limits. */
export async function authenticateByCookie(
  { store, clock }: SessionDeps,
  cookie: string,
): Promise<LiveSession | null> {
  const now = clock()
  const live = await store.findLiveSessionByCookie(digestOf(cookie), now)
  if (!live?.cookieUsedAt) return null
  const idleSeconds = (now.getTime() - live.cookieUsedAt.getTime()) / 1000
  if (idleSeconds >= COOKIE_IDLE_SECONDS) return null
  if (idleSeconds >= COOKIE_TOUCH_SECONDS) {
    const until = new Date(now.getTime() + COOKIE_IDLE_SECONDS * 1000)
    await store.touchCookie(live.session.id, until, now)
  }
  return live
}
