// Access tokens, which other services accept: signed with a private key, verified with the published keys.
import { randomUUID } from 'node:crypto'
import { errors, jwtVerify } from 'jose'
import { CLOCK_TOLERANCE_SECONDS } from '../domain/lifetimes.ts'
import type { Invalid, Session } from '../domain/session.ts'
import type { User } from '../domain/user.ts'
import type { AccessKey, Keys } from '../keys/key-set.ts'
import { signToken } from '../keys/sign-token.ts'
import { digestOf, isUuid } from '../system/identifiers.ts'
import { TOKEN_MAX_CHARACTERS, type TokenReason, toInvalid } from './token-reason.ts'

const TYPE = 'at+jwt'

export type TokenSettings = { issuer: string; audience: string; accessSeconds: number }

/** A new token. It expires with its session at the latest. */
export function signAccessToken(
  key: AccessKey,
  { issuer, audience, accessSeconds }: TokenSettings,
  user: Pick<User, 'id' | 'email' | 'name' | 'role'>,
  session: Pick<Session, 'id' | 'expiresAt'>,
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
  })
  return { accessToken, expiresInSeconds }
}

type Named = { kind: 'read'; sessionId: string; userId: string }

/** The session and user that a valid token names. */
export async function readAccessToken(
  keys: Keys,
  tokens: TokenSettings,
  token: string,
  now: Date,
): Promise<Named | Invalid<TokenReason>> {
  if (token.length > TOKEN_MAX_CHARACTERS) return { kind: 'invalid', reason: 'malformed' }
  const digest = digestOf(token)
  const known = verified.get(digest)
  if (known && isStillValid(known, keys, tokens, now)) return known.named
  const { issuer, audience } = tokens
  let usedKey: AccessKey | null = null
  try {
    const { payload } = await jwtVerify(
      token,
      // Only the service's own keys count. A key or key address in the token's header is ignored.
      ({ kid, alg }) => {
        usedKey = keys.findAccessKey(kid ?? '')
        if (!usedKey) throw new errors.JWKSNoMatchingKey()
        if (usedKey.algorithm !== alg) throw new errors.JOSEAlgNotAllowed('of another key')
        return usedKey.publicKey
      },
      {
        issuer,
        audience,
        typ: TYPE,
        currentDate: now,
        clockTolerance: CLOCK_TOLERANCE_SECONDS,
        requiredClaims: ['exp', 'iat', 'sub', 'sid', 'jti'],
      },
    )
    const { sid, sub, exp = 0 } = payload
    if (!usedKey || !isUuid(sid) || !isUuid(sub)) return { kind: 'invalid', reason: 'malformed' }
    const named: Named = { kind: 'read', sessionId: sid, userId: sub }
    remember(digest, { named, expiresAtMs: exp * 1000, key: usedKey, tokens })
    return named
  } catch (error) {
    return toInvalid(error, token, TYPE)
  }
}

type Verified = { named: Named; expiresAtMs: number; key: AccessKey; tokens: TokenSettings }

/**
 * The tokens that were verified last, by their digests: a signature takes 0.4 ms to verify, and clients show a token
 * many times. Whether the session is still live is asked each time.
 */
const verified = new Map<string, Verified>()
const MAX_VERIFIED = 10_000

function remember(digest: string, token: Verified): void {
  verified.set(digest, token)
  if (verified.size <= MAX_VERIFIED) return
  for (const oldest of verified.keys()) {
    verified.delete(oldest)
    return
  }
}

/** False after a reload of the keys, which makes new objects of them. */
function isStillValid(token: Verified, keys: Keys, tokens: TokenSettings, now: Date): boolean {
  const isSameKey = keys.findAccessKey(token.key.keyId) === token.key
  return isSameKey && token.tokens === tokens && now.getTime() < token.expiresAtMs
}
