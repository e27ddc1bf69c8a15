// Finds or ends the session that a request belongs to: by access token, by refresh token or by cookie.

import { COOKIE_TOUCH_SECONDS } from '../domain/lifetimes.ts'
import type { Invalid, LiveSession, SessionKey, SessionReason } from '../domain/session.ts'
import type { Store } from '../domain/store.ts'
import type { Keys } from '../keys/key-set.ts'
import { digestOf } from '../system/identifiers.ts'
import type { ReadAccessToken, TokenSettings } from './access-token.ts'
import {
  type DemandingRoles,
  type EndedWithoutFactor,
  endWithoutSecondFactor,
} from './demanded-factor.ts'
import { readRefreshToken } from './refresh-token.ts'
import type { TokenReason } from './token-reason.ts'

export type SessionDeps = {
  store: Pick<Store, 'sessions' | 'secondFactors' | 'refreshTokens'>
  keys: Keys
  tokens: TokenSettings
  readAccessToken: ReadAccessToken
  /** Idle expiry: a session cookie that is not used for this long is invalid; the refresh token stays valid. */
  cookieIdleSeconds: number
  /** How long a session lasts from its login. */
  sessionMaxSeconds: number
  secondFactorRoles: DemandingRoles
  clock: () => Date
}

/** Why a credential is not accepted, for the log. The caller gets the same answer for every reason. */
export type AccessReason = TokenReason | SessionReason | 'wrong-user' | 'cookie-idle'

/** What a request shows to prove that it belongs to a session. */
export type Credential = { kind: 'access-token' | 'refresh-token' | 'cookie'; value: string }

/** `email`: of the user whose cookie was idle for too long. */
type Authentication =
  | ({ kind: 'live' } & LiveSession)
  | (Invalid<AccessReason> & Pick<Partial<EndedWithoutFactor>, 'ended'> & { email?: string })

/** Other services accept an access token until it expires or the feed lists its session; this one only while that is live. */
export async function authenticate(
  deps: SessionDeps,
  credential: Credential,
): Promise<Authentication> {
  const { store, clock } = deps
  const now = clock()
  const key = await readCredential(deps, credential, now)
  switch (key.kind) {
    case 'token': {
      const found = await store.sessions.findLive(key.sessionId, now)
      if (found.kind === 'invalid') return found
      if (found.user.id !== key.userId) return { kind: 'invalid', reason: 'wrong-user' }
      return (await endWithoutSecondFactor(deps, found)) ?? found
    }
    case 'cookie':
      return useCookie(deps, key, now)
    case 'invalid':
      return key
    default:
      return key satisfies never
  }
}

/** Using the cookie postpones its idle expiry, but not the absolute expiry of the session. */
async function useCookie(
  deps: SessionDeps,
  { digest, usedAfter }: Extract<SessionKey, { kind: 'cookie' }>,
  now: Date,
): Promise<Authentication> {
  const { store, cookieIdleSeconds, sessionMaxSeconds } = deps
  const found = await store.sessions.findLiveByCookie(digest, now)
  if (found.kind === 'invalid') return found
  // The login was on a clock that was wrong. Otherwise the session would last for as long as that was ahead.
  if (found.session.createdAt.getTime() > now.getTime() + sessionMaxSeconds * 1000) {
    return { kind: 'invalid', reason: 'session-expired' }
  }
  const usedAt = found.cookieUsedAt ?? new Date(0)
  if (usedAt <= usedAfter) {
    return { kind: 'invalid', reason: 'cookie-idle', email: found.user.email }
  }
  const refused = await endWithoutSecondFactor(deps, found)
  if (refused) return refused
  const noteBefore = secondsBefore(now, COOKIE_TOUCH_SECONDS)
  if (usedAt <= noteBefore) {
    const until = new Date(now.getTime() + cookieIdleSeconds * 1000)
    await store.sessions.touchCookie(found.session.id, until, noteBefore, now)
  }
  return found
}

type Ended = { kind: 'ended'; id: string; userId: string }

/** Ends the session of a credential. Also by a replaced refresh token: that logout is meant for the session. */
export async function endSessionOf(
  deps: SessionDeps,
  credential: Credential,
): Promise<Ended | Invalid<AccessReason>> {
  const now = deps.clock()
  const key = await readCredential(deps, credential, now)
  if (key.kind === 'invalid') return key
  const ended = await deps.store.sessions.endOf(key, now)
  if (ended) return { kind: 'ended', ...ended }
  // Only for the log: why there was no session to end. One that is live had not yet begun.
  const found = await authenticate(deps, credential)
  return found.kind === 'invalid' ? found : { kind: 'invalid', reason: 'unknown-session' }
}

async function readCredential(
  { keys, tokens, readAccessToken, cookieIdleSeconds }: SessionDeps,
  { kind, value }: Credential,
  now: Date,
): Promise<SessionKey | Invalid<TokenReason>> {
  if (kind === 'cookie') {
    return { kind, digest: digestOf(value), usedAfter: secondsBefore(now, cookieIdleSeconds) }
  }
  const token =
    kind === 'access-token'
      ? await readAccessToken(value, now)
      : readRefreshToken(keys, tokens.issuer, value, now)
  if (token.kind === 'invalid') return token
  return { kind: 'token', sessionId: token.sessionId, userId: token.userId }
}

function secondsBefore(now: Date, seconds: number): Date {
  return new Date(now.getTime() - seconds * 1000)
}
