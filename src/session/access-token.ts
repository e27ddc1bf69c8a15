// The token that other services accept: signed with a private key, verified with the published one.
import { randomUUID } from 'node:crypto'
import { SignJWT } from 'jose'
import type { User } from '../storage/store.ts'
import type { AccessKey } from './keys.ts'
import { ACCESS_TOKEN_SECONDS } from './lifetimes.ts'

export function signAccessToken(
  key: AccessKey,
  { issuer, audience }: { issuer: string; audience: string },
  user: User,
  sessionId: string,
  issuedAt: number,
): Promise<string> {
  return new SignJWT({ sid: sessionId, email: user.email, name: user.name, role: user.role })
    .setProtectedHeader({ alg: key.algorithm, typ: 'at+jwt', kid: key.keyId })
    .setIssuer(issuer)
    .setAudience(audience)
    .setSubject(user.id)
    .setIssuedAt(issuedAt)
    .setExpirationTime(issuedAt + ACCESS_TOKEN_SECONDS)
    .setJti(randomUUID())
    .sign(key.privateKey)
}
