// The token that only this service accepts. It follows from its row alone (id, times, key), so that
// the same token can be derived again without ever being stored.
import { createHash } from 'node:crypto'
import { SignJWT } from 'jose'
import type { RefreshKey } from './keys.ts'

/**
 * A refresh token stays within its 500 specified characters as long as the issuer does not exceed
 * this; the key's id has its own limit, and everything else a fixed length.
 */
export const ISSUER_MAX_BYTES = 100

export function signRefreshToken(
  key: RefreshKey,
  issuer: string,
  userId: string,
  token: { id: string; issuedAt: number; expiresAt: number },
): Promise<string> {
  return new SignJWT({
    iss: issuer,
    sub: userId,
    jti: token.id,
    iat: token.issuedAt,
    exp: token.expiresAt,
  })
    .setProtectedHeader({ alg: 'HS256', typ: 'rt+jwt', kid: key.keyId })
    .sign(key.secret)
}

/** What is stored of a token. */
export function digestOf(token: string): string {
  return createHash('sha256').update(token).digest('hex')
}
