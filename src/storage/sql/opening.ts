// What both engines write when a login opens a session.
import type { Opening } from '../../domain/attempt.ts'
import { digestOf } from '../../system/identifiers.ts'
import { displacedValues } from './displaced-sessions.ts'
import { formatTime } from './schema.ts'

export function openingValues(
  { user, session, refreshToken, device, displaced }: Opening,
  now: Date,
) {
  return {
    ...displacedValues(displaced, device),
    now: formatTime(now),
    userId: user.id,
    passwordHash: user.passwordHash,
    hashDigest: digestOf(user.passwordHash),
    sessionId: session.id,
    sessionEnd: formatTime(session.expiresAt),
    cookieDigest: session.cookieDigest,
    cookieUsedAt: session.cookieDigest && formatTime(now),
    userAgent: session.userAgent,
    ip: session.ip,
    tokenId: refreshToken.id,
    tokenDigest: refreshToken.digest,
    keyId: refreshToken.keyId,
    issuedAt: formatTime(refreshToken.issuedAt),
    tokenEnd: formatTime(refreshToken.expiresAt),
    knownDeviceId: device?.kind === 'known' ? device.id : null,
    newDeviceId: device?.kind === 'new' ? device.id : null,
    deviceDigest: device?.kind === 'new' ? device.digest : null,
    deviceEnd: device && formatTime(device.expiresAt),
  }
}
export type OpeningValues = ReturnType<typeof openingValues>
