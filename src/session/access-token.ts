// Access tokens, which other services accept: signed with a private key, verified with the published keys.
import { randomUUID } from 'node:crypto'
import { decodeProtectedHeader, errors, jwtVerify } from 'jose'
import { CLOCK_TOLERANCE_SECONDS } from '../domain/lifetimes.ts'
import { type Invalid, invalid, type Session } from '../domain/session.ts'
import type { User } from '../domain/user.ts'
import type { AccessKey, Keys } from '../keys/key-set.ts'
import { signToken } from '../keys/sign-token.ts'
import { digestOf, isUuid } from '../system/identifiers.ts'
import { TOKEN_MAX_CHARACTERS, type TokenReason } from './token-reason.ts'

const TYPE = 'at+jwt'

export type TokenSettings = { issuer: string; audience: string; accessSeconds: number }

/** A new token. It expires with its session at the latest. */
export function signAccessToken(
  key: AccessKey,
  { issuer, audience, accessSeconds }: TokenSettings,
  user: Pick<User, 'id' | 'email' | 'name' | 'role'>,
  session: Pick<Session, 'id' | 'expiresAt' | 'amr'>,
  now: Date,
): { accessToken: string; expiresInSeconds: number } {
  const issuedAt = Math.floor(now.getTime() / 1000)
  const sessionEnd = Math.floor(session.expiresAt.getTime() / 1000)
  const expiresInSeconds = Math.min(accessSeconds, sessionEnd - issuedAt)
  const accessToken = signToken(key, TYPE, {
    iss: issuer,
    aud: audience,
    sub: user.id,
    sid: session.id,
    jti: randomUUID(),
    iat: issuedAt,
    exp: issuedAt + expiresInSeconds,
    email: user.email,
    name: user.name,
    role: user.role,
    amr: session.amr,
  })
  return { accessToken, expiresInSeconds }
}

type Named = { kind: 'read'; sessionId: string; userId: string }
type Verified = { named: Named; expiresAtMs: number; key: AccessKey }

/**
 * A service remembers the tokens that it verified last: a signature takes 0.4 ms to verify, and clients show a token many
 * times. Whether the session is still live is asked each time.
 */
const MAX_VERIFIED = 10_000

export type ReadAccessToken = ReturnType<typeof createAccessTokenReader>

/** Reads the session and user that a valid token names. */
export function createAccessTokenReader(keys: Keys, tokens: TokenSettings) {
  /** By their digests, the oldest first. */
  const verified = new Map<string, Verified>()

  return async function readAccessToken(
    token: string,
    now: Date,
  ): Promise<Named | Invalid<TokenReason>> {
    if (token.length > TOKEN_MAX_CHARACTERS) return invalid('malformed')
    const digest = digestOf(token)
    const known = verified.get(digest)
    // A reload of the keys makes new objects of them, so that its tokens are verified again.
    const isSameKey = known && keys.findAccessKey(known.key.keyId) === known.key
    if (isSameKey && now.getTime() < known.expiresAtMs) return known.named
    let key: AccessKey | null = null
    try {
      const { payload } = await jwtVerify(
        token,
        // Only the service's own keys count. A key or key address in the token's header is ignored.
        ({ kid, alg }) => {
          key = keys.findAccessKey(kid ?? '')
          if (!key) throw new errors.JWKSNoMatchingKey()
          if (key.algorithm !== alg) throw new errors.JOSEAlgNotAllowed('of another key')
          return key.publicKey
        },
        {
          issuer: tokens.issuer,
          audience: tokens.audience,
          typ: TYPE,
          currentDate: now,
          clockTolerance: CLOCK_TOLERANCE_SECONDS,
          requiredClaims: ['exp', 'iat', 'sub', 'sid', 'jti'],
        },
      )
      const { sid, sub, exp = 0 } = payload
      if (!key || !isUuid(sid) || !isUuid(sub)) return invalid('malformed')
      const named: Named = { kind: 'read', sessionId: sid, userId: sub }
      verified.set(digest, { named, expiresAtMs: exp * 1000, key })
      const [oldest] = verified.keys()
      if (verified.size > MAX_VERIFIED && oldest) verified.delete(oldest)
      return named
    } catch (error) {
      return toInvalid(error, token)
    }
  }
}

/** The reason for each claim or header whose check can fail. */
const BY_CLAIM: Record<string, TokenReason> = {
  typ: 'wrong-type',
  iss: 'wrong-issuer',
  aud: 'wrong-audience',
  nbf: 'not-yet-valid',
}

/** Turns an error of the verification into a reason. Rethrows an error that the token did not cause. */
export function toInvalid(error: unknown, token: string): Invalid<TokenReason> {
  if (!(error instanceof errors.JOSEError)) throw error
  const reason = reasonOf(error)
  // A refresh token has another key and algorithm; 'wrong-type' is the better reason for it.
  const isByKey = reason === 'unknown-key' || reason === 'wrong-algorithm'
  const isOfOtherType = isByKey && decodeProtectedHeader(token).typ !== TYPE
  return invalid(isOfOtherType ? 'wrong-type' : reason)
}

function reasonOf(error: errors.JOSEError): TokenReason {
  if (error instanceof errors.JWTExpired) return 'expired'
  if (error instanceof errors.JWSSignatureVerificationFailed) return 'bad-signature'
  if (error instanceof errors.JWKSNoMatchingKey) return 'unknown-key'
  if (error instanceof errors.JOSEAlgNotAllowed) return 'wrong-algorithm'
  if (error instanceof errors.JWTClaimValidationFailed) return BY_CLAIM[error.claim] ?? 'malformed'
  return 'malformed'
}
