// Exchanges a refresh token for its successor. One of several parallel calls performs the rotation; for a
// short time the others, and repetitions, get the same successor.

import { REFRESH_GRACE_SECONDS } from '../domain/lifetimes.ts'
import type { FoundRefreshToken, LiveSession } from '../domain/session.ts'
import { digestOf } from '../identifiers.ts'
import { signAccessToken } from './access-token.ts'
import type { AccessReason, SessionDeps } from './authenticate.ts'
import { issueRefreshToken, readRefreshToken, signRefreshToken } from './refresh-token.ts'

/** One rotation can lose against a parallel one; more can lose only if the session changes as well. */
const MAX_TRIES = 5
/** Far more refreshes of one session than any client needs. */
const MAX_REFRESHES = 60
const LIMIT_WINDOW_MS = 60_000

type RefreshOutcome =
  | ({ kind: 'refreshed'; live: LiveSession; refreshToken: string } & SignedAccess)
  | { kind: 'invalid'; reason: AccessReason }
  /** The token had been replaced: two parties hold it, so the session has been ended. */
  | { kind: 'reused'; sessionId: string; userId: string }
  | Limited

type SignedAccess = { accessToken: string; expiresInSeconds: number }
type Limited = { kind: 'limited'; sessionId: string; retryAfterSeconds: number }
type ValidToken = Extract<FoundRefreshToken, { kind: 'found' }>

export type RefreshDeps = SessionDeps & {
  /** Seconds to wait; null if the session may be refreshed now. */
  limit: (sessionId: string) => number | null
}

/** Counts in memory, per instance: it limits work and protects no secret. */
export function createRefreshLimit(clock: () => Date): RefreshDeps['limit'] {
  const windows = new Map<string, { endsAtMs: number; refreshes: number }>()
  return sessionId => {
    const nowMs = clock().getTime()
    // A map keeps the order of insertion, so the oldest windows come first.
    for (const [id, { endsAtMs }] of windows) {
      if (endsAtMs > nowMs) break
      windows.delete(id)
    }
    const window = windows.get(sessionId) ?? { endsAtMs: nowMs + LIMIT_WINDOW_MS, refreshes: 0 }
    windows.set(sessionId, window)
    window.refreshes++
    return window.refreshes <= MAX_REFRESHES ? null : Math.ceil((window.endsAtMs - nowMs) / 1000)
  }
}

export async function refresh(deps: RefreshDeps, token: string): Promise<RefreshOutcome> {
  const { store, keys, tokens, clock, limit } = deps
  const now = clock()
  const read = await readRefreshToken(keys, tokens.issuer, token, now)
  if (read.kind === 'invalid') return read
  const digest = digestOf(token)

  for (let tries = 0; tries < MAX_TRIES; tries++) {
    const found = await store.findRefreshToken(read.id, digest, now)
    if (found.kind === 'invalid') return found
    const { session, user } = found.live
    const retryAfterSeconds = tries === 0 ? limit(session.id) : null
    if (retryAfterSeconds !== null) {
      return { kind: 'limited', sessionId: session.id, retryAfterSeconds }
    }
    const isUnused = found.revokedAt === null
    const successor = isUnused
      ? await rotate(deps, read.id, found.live, now)
      : deriveSuccessor(deps, found, now)
    if (successor !== null) {
      const { accessKey } = keys.signingAt(now)
      const access = signAccessToken(accessKey, tokens, user, session, now)
      return { kind: 'refreshed', live: found.live, ...access, refreshToken: successor }
    }
    if (!isUnused) return endReused(deps, found.live, now)
    // A parallel call was faster, or the session changed meanwhile: what is stored now decides.
  }
  throw new Error('the refresh token changed with every try')
}

/** A new access token for a session that is authenticated by its cookie, which stays the same. */
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

/** The new token, or null if the old one has been replaced or revoked meanwhile. */
async function rotate(
  { store, keys, tokens }: RefreshDeps,
  id: string,
  { session, user }: LiveSession,
  now: Date,
): Promise<string | null> {
  const { refreshKey } = keys.signingAt(now)
  const next = issueRefreshToken(refreshKey, tokens.issuer, user.id, session.expiresAt, now)
  return (await store.rotateRefreshToken(id, session.id, next.stored, now)) ? next.token : null
}

/** The same successor again, within the grace period and while the successor has not been used. */
function deriveSuccessor(
  { keys, tokens }: RefreshDeps,
  { live, revokedAt, successor }: ValidToken,
  now: Date,
): string | null {
  if (revokedAt === null || successor === null || successor.isRevoked) return null
  // Counted from the rotation, so that repetitions do not extend it.
  if (now.getTime() - revokedAt.getTime() > REFRESH_GRACE_SECONDS * 1000) return null
  const key = keys.findRefreshKey(successor.keyId)
  return key && signRefreshToken(key, tokens.issuer, live.user.id, successor)
}

async function endReused(
  { store }: RefreshDeps,
  { session, user }: LiveSession,
  now: Date,
): Promise<RefreshOutcome> {
  // Of several parallel calls, only the one that ends the session reports the reuse.
  const isEnded = await store.endSession(session.id, now)
  return isEnded
    ? { kind: 'reused', sessionId: session.id, userId: user.id }
    : { kind: 'invalid', reason: 'session-ended' }
}
