// Finds the session that a request belongs to: by access token, by refresh token or by cookie.

import { COOKIE_IDLE_SECONDS, COOKIE_TOUCH_SECONDS } from '../domain/lifetimes.ts'
import type { Invalid, LiveSession, SessionReason, SessionStore } from '../domain/session.ts'
import { digestOf } from '../identifiers.ts'
import type { Keys } from '../keys/key-set.ts'
import { readAccessToken, type TokenAudience } from './access-token.ts'
import { readRefreshToken } from './refresh-token.ts'
import type { TokenReason } from './token-reason.ts'

export type SessionDeps = {
  store: SessionStore
  keys: Keys
  tokens: TokenAudience
  clock: () => Date
}

/** Why a credential is not accepted, for the log. The caller gets the same answer for every reason. */
export type AccessReason =
  | TokenReason
  | SessionReason
  | 'unknown-token'
  | 'wrong-user'
  | 'cookie-idle'

export type Authentication = ({ kind: 'live' } & LiveSession) | Invalid<AccessReason>

/** Other services accept an access token until it expires; this one only while its session is live. */
export async function authenticateByToken(
  { store, keys, tokens, clock }: SessionDeps,
  accessToken: string,
): Promise<Authentication> {
  const now = clock()
  const claims = await readAccessToken(keys, tokens, accessToken, now)
  if (claims.kind === 'invalid') return claims
  const found = await store.findLiveSession(claims.sessionId, now)
  if (found.kind === 'invalid' || found.user.id === claims.userId) return found
  return { kind: 'invalid', reason: 'wrong-user' }
}

/** Accepts a replaced token too: a logout with an old token is meant for the session. */
export async function authenticateByRefreshToken(
  { store, keys, tokens, clock }: SessionDeps,
  refreshToken: string,
): Promise<Authentication> {
  const now = clock()
  const token = await readRefreshToken(keys, tokens.issuer, refreshToken, now)
  if (token.kind === 'invalid') return token
  const found = await store.findRefreshToken(token.id, digestOf(refreshToken), now)
  return found.kind === 'invalid' ? found : { kind: 'live', ...found.live }
}

/** Using the cookie postpones its idle expiry, but not the absolute expiry of the session. */
export async function authenticateByCookie(
  { store, clock }: SessionDeps,
  cookie: string,
): Promise<Authentication> {
  const now = clock()
  const found = await store.findLiveSessionByCookie(digestOf(cookie), now)
  if (found.kind === 'invalid') return found
  const idleSeconds = (now.getTime() - (found.cookieUsedAt?.getTime() ?? 0)) / 1000
  if (idleSeconds >= COOKIE_IDLE_SECONDS) return { kind: 'invalid', reason: 'cookie-idle' }
  if (idleSeconds >= COOKIE_TOUCH_SECONDS) {
    const until = new Date(now.getTime() + COOKIE_IDLE_SECONDS * 1000)
    await store.touchCookie(found.session.id, until, now)
  }
  return found
}
