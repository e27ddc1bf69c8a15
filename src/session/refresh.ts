// Exchanges a refresh token for its successor. One of several parallel calls performs the rotation; for a
// short time the others, and repetitions by the same caller, get the same successor.
import { REFRESH_GRACE_SECONDS } from '../domain/lifetimes.ts'
import type { FoundRefreshToken, RefreshedSession } from '../domain/refresh-token.ts'
import type { Invalid, LiveSession } from '../domain/session.ts'
import { digestOf } from '../system/identifiers.ts'
import { within } from '../system/time-limit.ts'
import { signAccessToken } from './access-token.ts'
import type { AccessReason, SessionDeps } from './authenticate.ts'
import { type EndedWithoutFactor, endWithoutSecondFactor } from './demanded-factor.ts'
import type { Limited, RefreshLimits } from './rate-limit.ts'
import { digestCaller, type RefreshCaller, recogniseCaller } from './refresh-caller.ts'
import { issueRefreshToken, readRefreshToken, signRefreshToken } from './refresh-token.ts'

/** One try can lose against a parallel call, and one learns when the session ends. */
const MAX_TRIES = 5
/** For all tries together, so that a request is answered within 2 s. Longer than the store's limit for one. */
const TRIES_TIMEOUT_MS = 1_800

type RefreshOutcome =
  | ({ kind: 'refreshed'; live: RefreshedSession; refreshToken: string } & Repeated & SignedAccess)
  | (Invalid<AccessReason> & Pick<Partial<EndedWithoutFactor>, 'ended'>)
  /**
   * The token had been replaced: two parties hold it, so the session has been ended. `isOtherCaller`: within the
   * grace period, in which only the caller that replaced the token gets the successor again.
   */
  | { kind: 'reused'; sessionId: string; userId: string; isOtherCaller: boolean }
  | Limited

/** How the caller of a repetition was recognised; null if this call replaced the token. */
type Repeated = { repeatedBy: 'id' | 'client' | null }
type SignedAccess = { accessToken: string; expiresInSeconds: number }
type ValidToken = Extract<FoundRefreshToken, { kind: 'found' }>

export type RefreshDeps = Pick<
  SessionDeps,
  'store' | 'keys' | 'tokens' | 'clock' | 'secondFactorRoles'
> & {
  refreshLimits: RefreshLimits
}

export async function refresh(
  deps: RefreshDeps,
  token: string,
  caller: RefreshCaller,
): Promise<RefreshOutcome> {
  const { store, keys, tokens, clock, refreshLimits } = deps
  const now = clock()
  const read = readRefreshToken(keys, tokens.issuer, token, now)
  if (read.kind === 'invalid') return read
  const digest = digestOf(token)
  const limited = refreshLimits.begin(read.sessionId, read.userId)
  if (limited) {
    // A thief that refreshes too often must not keep the owner's token from ending the session.
    const found = await store.refreshTokens.find(read.id, digest, now)
    return isReused(deps, found, now) ? endReused(deps, read, false, now) : limited
  }
  const { refreshKey } = keys.signingAt(now)
  /** Most sessions last longer than the new token. */
  let { sessionEnd } = read
  const deadlineMs = performance.now() + TRIES_TIMEOUT_MS
  for (let tries = 0; tries < MAX_TRIES; tries++) {
    const next = issueRefreshToken(refreshKey, tokens.issuer, read, sessionEnd, now)
    const successor = { ...next.stored, ...digestCaller(caller, token, next.stored.id) }
    const using = store.refreshTokens.use(read.id, digest, successor, now)
    const used = await within(using, deadlineMs - performance.now(), 'the database is slow')
    if (used.kind === 'invalid') return used
    if (used.kind === 'purged') return endReused(deps, read, false, now)
    const live = used.kind === 'replaced' ? used : used.live
    const refused = await endWithoutSecondFactor(deps, live)
    if (refused) return refused
    if (used.kind === 'replaced') return succeed(deps, live, next.token, null, now)
    const { revokedAt } = used
    if (revokedAt !== null) {
      const again = deriveSuccessor(deps, used, now)
      if (again === null) return endReused(deps, read, false, now)
      const by = recogniseCaller(caller, { id: read.id, token }, used)
      return by ? succeed(deps, live, again, by, now) : endReused(deps, read, true, now)
    }
    // The session ends before the new token, or a parallel call was faster: the next try shows which.
    sessionEnd = live.session.expiresAt
  }
  throw new Error('the refresh token changed with every try')
}

function succeed(
  { keys, tokens, refreshLimits }: RefreshDeps,
  live: RefreshedSession,
  refreshToken: string,
  repeatedBy: Repeated['repeatedBy'],
  now: Date,
): RefreshOutcome {
  refreshLimits.succeed(live.user.id)
  const { accessKey } = keys.signingAt(now)
  const access = signAccessToken(accessKey, tokens, live.user, live.session, now)
  return { kind: 'refreshed', live, ...access, refreshToken, repeatedBy }
}

/** A new access token for a session that is authenticated by its cookie, which stays the same. */
export function renewAccess(
  { keys, tokens, clock, refreshLimits }: RefreshDeps,
  { session, user }: LiveSession,
): ({ kind: 'renewed' } & SignedAccess) | Limited {
  const limited = refreshLimits.count(session.id, user.id)
  if (limited) return limited
  const now = clock()
  const { accessKey } = keys.signingAt(now)
  const access = signAccessToken(accessKey, tokens, user, session, now)
  return { kind: 'renewed', ...access }
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
  const holder = { userId: live.user.id, sessionId: live.session.id }
  return key && signRefreshToken(key, tokens.issuer, holder, successor)
}

function isReused(deps: RefreshDeps, found: FoundRefreshToken, now: Date): boolean {
  if (found.kind !== 'found') return found.kind === 'purged'
  return found.revokedAt !== null && deriveSuccessor(deps, found, now) === null
}

async function endReused(
  { store }: RefreshDeps,
  { sessionId, userId }: { sessionId: string; userId: string },
  isOtherCaller: boolean,
  now: Date,
): Promise<RefreshOutcome> {
  // If several calls run in parallel, only the one that ends the session reports the reuse.
  const isEnded = await store.sessions.end(sessionId, now)
  return isEnded
    ? { kind: 'reused', sessionId, userId, isOtherCaller }
    : { kind: 'invalid', reason: 'session-ended' }
}
