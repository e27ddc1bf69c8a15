// The token that only this service accepts. It follows from its row alone (id, times, key), so that
// the same token can be derived again without ever being stored.
import { randomUUID } from 'node:crypto'
import { errors, jwtVerify } from 'jose'
import type { Invalid, NewRefreshToken } from '../domain/session.ts'
import { digestOf, isUuid } from '../identifiers.ts'
import type { Keys, RefreshKey } from '../keys/key-set.ts'
import { signToken } from '../keys/sign-token.ts'
import { REFRESH_TOKEN_SECONDS } from './lifetimes.ts'
import { TOKEN_MAX_CHARACTERS, type TokenReason, toInvalid } from './token-reason.ts'

const TYPE = 'rt+jwt'

/**
 * A refresh token stays within its 500 specified characters as long as the issuer, as it stands in
 * the token, does not exceed this; everything else in it has a fixed length.
 */
export const ISSUER_MAX_BYTES = 100

/** A new token, never to outlive its session, and what is stored of it. */
export function issueRefreshToken(
  key: RefreshKey,
  issuer: string,
  userId: string,
  sessionExpiresAt: Date,
  now: Date,
): { token: string; stored: NewRefreshToken } {
  // Tokens carry whole seconds, and so do their rows.
  const issuedAt = Math.floor(now.getTime() / 1000)
  const sessionEnd = Math.floor(sessionExpiresAt.getTime() / 1000)
  const row = {
    id: randomUUID(),
    issuedAt: new Date(issuedAt * 1000),
    expiresAt: new Date(Math.min(issuedAt + REFRESH_TOKEN_SECONDS, sessionEnd) * 1000),
  }
  const token = signRefreshToken(key, issuer, userId, row)
  return { token, stored: { ...row, keyId: key.keyId, digest: digestOf(token) } }
}

export function signRefreshToken(
  key: RefreshKey,
  issuer: string,
  userId: string,
  { id, issuedAt, expiresAt }: { id: string; issuedAt: Date; expiresAt: Date },
): string {
  return signToken(key, TYPE, {
    iss: issuer,
    sub: userId,
    jti: id,
    iat: issuedAt.getTime() / 1000,
    exp: expiresAt.getTime() / 1000,
  })
}

/** The id of a token that this service made and that has not expired. */
export async function readRefreshToken(
  keys: Keys,
  issuer: string,
  token: string,
  now: Date,
): Promise<{ kind: 'read'; id: string } | Invalid<TokenReason>> {
  if (token.length > TOKEN_MAX_CHARACTERS) return { kind: 'invalid', reason: 'malformed' }
  try {
    const { payload } = await jwtVerify(
      token,
      ({ kid }) => {
        const key = keys.findRefreshKey(kid ?? '')
        if (!key) throw new errors.JWKSNoMatchingKey()
        return key.secret
      },
      {
        issuer,
        typ: TYPE,
        algorithms: ['HS256'],
        currentDate: now,
        requiredClaims: ['exp', 'iat', 'sub', 'jti'],
      },
    )
    return isUuid(payload.jti)
      ? { kind: 'read', id: payload.jti }
      : { kind: 'invalid', reason: 'malformed' }
  } catch (error) {
    return toInvalid(error, token, TYPE)
  }
}
