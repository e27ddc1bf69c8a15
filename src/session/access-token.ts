// Access tokens, which other services accept: signed with a private key, verified with the published keys.
import { randomUUID } from 'node:crypto'
import { errors, jwtVerify } from 'jose'
import { ACCESS_TOKEN_SECONDS, CLOCK_TOLERANCE_SECONDS } from '../domain/lifetimes.ts'
import type { Invalid, Session } from '../domain/session.ts'
import type { User } from '../domain/user.ts'
import { isUuid } from '../identifiers.ts'
import type { AccessKey, Keys } from '../keys/key-set.ts'
import { signToken } from '../keys/sign-token.ts'
import { TOKEN_MAX_CHARACTERS, type TokenReason, toInvalid } from './token-reason.ts'

const TYPE = 'at+jwt'

export type TokenAudience = { issuer: string; audience: string }

/** A new token. It expires with its session at the latest. */
export function signAccessToken(
  key: AccessKey,
  { issuer, audience }: TokenAudience,
  user: Pick<User, 'id' | 'email' | 'name' | 'role'>,
  session: Pick<Session, 'id' | 'expiresAt'>,
  now: Date,
): { accessToken: string; expiresInSeconds: number } {
  const issuedAt = Math.floor(now.getTime() / 1000)
  const sessionEnd = Math.floor(session.expiresAt.getTime() / 1000)
  const expiresInSeconds = Math.min(ACCESS_TOKEN_SECONDS, sessionEnd - issuedAt)
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

/** The session and user that a valid token names. */
export async function readAccessToken(
  keys: Keys,
  { issuer, audience }: TokenAudience,
  token: string,
  now: Date,
): Promise<{ kind: 'read'; sessionId: string; userId: string } | Invalid<TokenReason>> {
  if (token.length > TOKEN_MAX_CHARACTERS) return { kind: 'invalid', reason: 'malformed' }
  try {
    const { payload } = await jwtVerify(
      token,
      // Only the service's own keys count. A key or key address in the token's header is ignored.
      ({ kid, alg }) => {
        const key = keys.findAccessKey(kid ?? '')
        if (!key) throw new errors.JWKSNoMatchingKey()
        if (key.algorithm !== alg) throw new errors.JOSEAlgNotAllowed('of another key')
        return key.publicKey
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
    return isUuid(payload.sid) && isUuid(payload.sub)
      ? { kind: 'read', sessionId: payload.sid, userId: payload.sub }
      : { kind: 'invalid', reason: 'malformed' }
  } catch (error) {
    return toInvalid(error, token, TYPE)
  }
}
