// Opens the session of an application of another site, by a one-time code and the verifier that only the application
// knows (RFC 7636, S256).
import { hash, randomUUID } from 'node:crypto'
import type { EndedSession } from '../domain/attempt.ts'
import { CODE_SECONDS } from '../domain/lifetimes.ts'
import { type Invalid, invalid, type SessionReason, type SessionUser } from '../domain/session.ts'
import type { Store } from '../domain/store.ts'
import { digestOf } from '../system/identifiers.ts'
import { signAccessToken } from './access-token.ts'
import type { SessionDeps } from './authenticate.ts'
import { type EndedWithoutFactor, endWithoutSecondFactor } from './demanded-factor.ts'
import { issueRefreshToken } from './refresh-token.ts'

/** 256 bits in base64url. A text of another form was not issued here. */
const CODE = /^[\w-]{43}$/
/** RFC 7636, section 4.1. */
const VERIFIER = /^[\w.~-]{43,128}$/

/** Why a code is not accepted, for the log. The caller gets the same answer for every reason. */
type CodeReason =
  | 'malformed'
  | 'unknown-code'
  | 'code-expired'
  | 'wrong-verifier'
  | 'wrong-origin'
  | 'changed-meanwhile'

export type RedeemDeps = Pick<SessionDeps, 'keys' | 'tokens' | 'clock' | 'secondFactorRoles'> & {
  store: Pick<Store, 'codes' | 'sessions'>
  maxSessionsPerUser: number
}

type Redemption = {
  code: string
  verifier: string
  /** The page whose script redeems the code has this origin; undefined for a program. */
  origin: string | undefined
  client: { ip: string; userAgent: string }
}

type RedeemOutcome =
  | {
      kind: 'redeemed'
      user: SessionUser
      sessionId: string
      accessToken: string
      refreshToken: string
      expiresInSeconds: number
      ended: EndedSession[]
    }
  | (Invalid<CodeReason | SessionReason> & Pick<Partial<EndedWithoutFactor>, 'ended'>)

export async function redeemCode(
  deps: RedeemDeps,
  { code, verifier, origin, client: { ip, userAgent } }: Redemption,
): Promise<RedeemOutcome> {
  const { store, keys, tokens, clock, maxSessionsPerUser } = deps
  if (!CODE.test(code) || !VERIFIER.test(verifier)) return invalid('malformed')
  const now = clock()
  const digest = digestOf(code)
  const found = await store.codes.find(digest, now)
  if (found.kind === 'invalid') return found
  const refused = await endWithoutSecondFactor(deps, found.live)
  if (refused) return refused
  const leftMs = found.expiresAt.getTime() - now.getTime()
  // One that ends much later was issued before the clock was set back.
  if (leftMs <= 0 || leftMs > 2 * CODE_SECONDS * 1000) return invalid('code-expired')
  if (hash('sha256', verifier, 'base64url') !== found.challenge) return invalid('wrong-verifier')
  if (origin !== undefined && origin !== new URL(found.callback).origin) {
    return invalid('wrong-origin')
  }

  // It ends with the session of the page at the latest: a password is good for 30 days.
  const { user, session: page } = found.live
  const session = { id: randomUUID(), expiresAt: page.expiresAt, userAgent, ip }
  const { accessKey, refreshKey } = keys.signingAt(now)
  const access = signAccessToken(accessKey, tokens, user, { ...session, amr: page.amr }, now)
  const holder = { userId: user.id, sessionId: session.id }
  const refresh = issueRefreshToken(refreshKey, tokens.issuer, holder, session.expiresAt, now)
  const opening = {
    userId: user.id,
    session,
    refreshToken: refresh.stored,
    maxSessions: maxSessionsPerUser,
  }
  const ended = await store.codes.redeem(digest, opening, now)
  if (!ended) return invalid('changed-meanwhile')
  return {
    kind: 'redeemed',
    user,
    sessionId: session.id,
    ...access,
    refreshToken: refresh.token,
    ended,
  }
}
