// A refresh token for its successor: one winner, and for a short while the same answer again.

import { digestOf } from '../digest.ts'
import type { LiveSession, PresentedRefreshToken, Store } from '../storage/store.ts'
import { signAccessToken } from './access-token.ts'
import type { AccessRefusal } from './authenticate.ts'
import { REFRESH_GRACE_SECONDS } from './lifetimes.ts'
import type { SessionDeps } from './open.ts'
import { issueRefreshToken, readRefreshToken, signRefreshToken } from './refresh-token.ts'

export type RefreshOutcome =
  | ({ kind: 'refreshed'; live: LiveSession; refreshToken: string } & SignedAccess)
  | { kind: 'invalid'; reason: AccessRefusal }
  /** The token had been used before: it is in two hands, and the session has been ended. */
  | { kind: 'reused'; sessionId: string; userId: string }
  | Limited

type SignedAccess = { accessToken: string; expiresInSeconds: number }
type Limited = { kind: 'limited'; sessionId: string; retryAfterSeconds: number }

export type RefreshDeps = SessionDeps & {
  /** Seconds to wait, or null if the session may be refreshed now. */
  limit: (sessionId: string) => number | null
}

export async function refresh(deps: RefreshDeps, token: string): Promise<RefreshOutcome> {
  const { store, keys, tokens, clock, limit } = deps
  const now = clock()
  const read = await readRefreshToken(keys, tokens.issuer, token, now)
  if (read.kind === 'refused') return { kind: 'invalid', reason: read.reason }
  const { id } = read
  const digest = digestOf(token)

  let presented = await store.findRefreshToken(id, digest, now)
  if (presented.kind === 'refused') return { kind: 'invalid', reason: presented.reason }
  const retryAfterSeconds = limit(presented.live.session.id)
  if (retryAfterSeconds !== null) {
    return { kind: 'limited', sessionId: presented.live.session.id, retryAfterSeconds }
  }

  let successor = await rotate(deps, id, presented, now)
  if (successor === null) {
    // Somebody was faster, or this is a repetition: what is stored now decides.
    presented = await store.findRefreshToken(id, digest, now)
    if (presented.kind === 'refused') return { kind: 'invalid', reason: presented.reason }
    successor =
      presented.revokedAt === null
        ? await rotate(deps, id, presented, now)
        : deriveAgain(deps, presented, now)
  }
  if (successor === null) return endReused(store, presented, now)
  return toRefreshed(deps, presented.live, successor, now)
}

/** A new access token for a session that a cookie stands for; the cookie stays as it is. */
export function renewAccess(
  { keys, tokens, clock, limit }: RefreshDeps,
  { session, user }: LiveSession,
): ({ kind: 'renewed' } & SignedAccess) | Limited {
  const retryAfterSeconds = limit(session.id)
  if (retryAfterSeconds !== null)
    return { kind: 'limited', sessionId: session.id, retryAfterSeconds }
  const now = clock()
  const { accessKey } = keys.signingAt(now)
  const access = signAccessToken(accessKey, tokens, user, session, now)
  return { kind: 'renewed', ...access }
}

/** The new token if this call put it in the old one's place, else null. */
async function rotate(
  { store, keys, tokens }: RefreshDeps,
  id: string,
  { live, revokedAt }: PresentedRefreshToken,
  now: Date,
): Promise<string | null> {
  if (revokedAt !== null) return null
  const { session, user } = live
  const { refreshKey } = keys.signingAt(now)
  const next = issueRefreshToken(refreshKey, tokens.issuer, user.id, session.expiresAt, now)
  return (await store.rotateRefreshToken(id, session.id, next.stored, now)) ? next.token : null
}

/** The same successor once more, while it is fresh and nobody has used it. */
function deriveAgain(
  { keys, tokens }: RefreshDeps,
  { live, revokedAt, successor }: PresentedRefreshToken,
  now: Date,
): string | null {
  if (revokedAt === null || successor === null || successor.isRevoked) return null
  // Counted from the rotation, so that repeating does not prolong it.
  if (now.getTime() - revokedAt.getTime() > REFRESH_GRACE_SECONDS * 1000) return null
  const key = keys.findRefreshKey(successor.keyId)
  return key && signRefreshToken(key, tokens.issuer, live.user.id, successor)
}

async function endReused(
  store: Store,
  { live }: PresentedRefreshToken,
  now: Date,
): Promise<RefreshOutcome> {
  const { session, user } = live
  // Of several that find out at once, one reports it.
  const isEnded = await store.endSession(session.id, now)
  return isEnded
    ? { kind: 'reused', sessionId: session.id, userId: user.id }
    : { kind: 'invalid', reason: 'session-ended' }
}

function toRefreshed(
  { keys, tokens }: RefreshDeps,
  live: LiveSession,
  refreshToken: string,
  now: Date,
): RefreshOutcome {
  const { accessKey } = keys.signingAt(now)
  const access = signAccessToken(accessKey, tokens, live.user, live.session, now)
  return { kind: 'refreshed', live, ...access, refreshToken }
}
