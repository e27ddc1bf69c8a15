// Refresh tokens, which only this service accepts. A token is derived from its row (id, times, key) alone, so
// the service can derive the same token again without storing it.
import { randomUUID, timingSafeEqual } from 'node:crypto'
import { errors, jwtVerify } from 'jose'
import { REFRESH_TOKEN_SECONDS } from '../domain/lifetimes.ts'
import type { NewRefreshToken } from '../domain/refresh-token.ts'
import type { Invalid } from '../domain/session.ts'
import type { Keys, RefreshKey } from '../keys/key-set.ts'
import { signToken } from '../keys/sign-token.ts'
import { digestOf, isUuid } from '../system/identifiers.ts'
import { TOKEN_MAX_CHARACTERS, type TokenReason, toInvalid } from './token-reason.ts'

const TYPE = 'rt+jwt'

/** A new token and its row. It expires with its session at the latest, if the session's end is known. */
export function issueRefreshToken(
  key: RefreshKey,
  issuer: string,
  userId: string,
  sessionEnd: Date | null,
  now: Date,
): { token: string; stored: NewRefreshToken } {
  // Tokens have whole seconds, so their rows have them too.
  const issuedAt = Math.floor(now.getTime() / 1000)
  const latest = sessionEnd ? Math.floor(sessionEnd.getTime() / 1000) : Number.POSITIVE_INFINITY
  const row = {
    id: randomUUID(),
    issuedAt: new Date(issuedAt * 1000),
    expiresAt: new Date(Math.min(issuedAt + REFRESH_TOKEN_SECONDS, latest) * 1000),
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

type ReadToken = {
  id: string
  userId: string
  /** Null if the token is not known to end with its session. */
  sessionEnd: Date | null
}

/** What a token says that this service has signed and that has not expired. */
export async function readRefreshToken(
  keys: Keys,
  issuer: string,
  token: string,
  now: Date,
): Promise<({ kind: 'read' } & ReadToken) | Invalid<TokenReason>> {
  if (token.length > TOKEN_MAX_CHARACTERS) return { kind: 'invalid', reason: 'malformed' }
  const own = readOwn(keys, issuer, token)
  if (own && own.expiresAt > now) return { kind: 'read', ...own }
  // Any other token costs more: this finds out what is wrong with it.
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
    return isUuid(payload.jti) && isUuid(payload.sub)
      ? { kind: 'read', id: payload.jti, userId: payload.sub, sessionEnd: null }
      : { kind: 'invalid', reason: 'malformed' }
  } catch (error) {
    return toInvalid(error, token, TYPE)
  }
}

/**
 * Signs the token again from its claims. It is one of ours if the result has the same bytes, which takes a quarter of
 * the time that jose needs to verify it. Null for any other token.
 */
function readOwn(
  keys: Keys,
  issuer: string,
  token: string,
): (ReadToken & { expiresAt: Date }) | null {
  const [header, claims] = token.split('.', 2).map(parsePart)
  const { kid } = Object(header)
  const { sub, jti, iat, exp } = Object(claims)
  const key = keys.findRefreshKey(String(kid))
  if (!key || !isUuid(sub) || !isUuid(jti)) return null
  const expiresAt = new Date(Number(exp) * 1000)
  // Only the end of its session shortens a token.
  const sessionEnd = exp - iat < REFRESH_TOKEN_SECONDS ? expiresAt : null
  const row = { id: jti, issuedAt: new Date(Number(iat) * 1000), expiresAt }
  const signed = Buffer.from(signRefreshToken(key, issuer, sub, row))
  const given = Buffer.from(token)
  const isSame = signed.length === given.length && timingSafeEqual(signed, given)
  return isSame ? { id: jti, userId: sub, expiresAt, sessionEnd } : null
}

function parsePart(part: string): unknown {
  try {
    return JSON.parse(Buffer.from(part, 'base64url').toString())
  } catch {
    return null
  }
}
