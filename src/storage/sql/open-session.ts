// Opens the session of a login, in the transaction that settles its attempt.
import { sql } from 'kysely'
import type { EndedSession, Opening } from '../../domain/attempt.ts'
import { GUESSES } from '../../domain/second-factor.ts'
import { digestOf } from '../../system/identifiers.ts'
import {
  changeValues,
  endOthers,
  forgetOtherDevices,
  replacePassword,
  toOthers,
} from './change-password.ts'
import { devicesOverLimit } from './device.ts'
import { isAmong, locking } from './dialect.ts'
import { displacedValues, endDisplaced, toEnded } from './displaced-sessions.ts'
import { changeFactors } from './login-factors.ts'
import { prepare, run, type Steps, send } from './prepared.ts'
import { formatTime } from './schema.ts'
import { insertToken, tokenValues } from './token-rows.ts'
import { isStillVerified, LAST_LOGIN_COLUMNS, noteLoginOf } from './user-rows.ts'

/** What follows `insertSession`, if that has opened the session. Returns the sessions that it ended. */
export function* completeSession(opening: Opening, values: OpeningValues): Steps<EndedSession[]> {
  const { user, session, device, displaced, change } = opening
  yield* send(noteLoginOf, { ...values, forgivesBelow: GUESSES.unknownDevice })
  yield* send(insertToken, tokenValues(values, opening.refreshToken))
  if (device?.kind === 'known') yield* send(noteUse, values)
  if (device?.kind === 'new') {
    yield* send(dropDevices, values)
    yield* send(insertDevice, values)
  }
  const ids = { now: values.now, userId: user.id, newId: session.id }
  const earlier = { ...displaced, deviceId: values.deviceId }
  if (!change) return (yield* run(endDisplaced, displacedValues(ids, earlier))).map(toEnded)
  // A change of credentials ends all others anyway.
  const unlimited = { ...earlier, maxSessions: MORE_THAN_ANY_USER_HAS }
  const ending = yield* send(endDisplaced, displacedValues(ids, unlimited))
  const changed = changeValues(user.id, session.id, change, values.now)
  if (change.newHash !== null) yield* send(replacePassword, changed)
  if (change.factors) yield* changeFactors(user.id, values.now, change.factors)
  yield* send(forgetOtherDevices, changed)
  const others = yield* run(endOthers, changed)
  const reason = change.factors ? 'second-factor' : 'password'
  return [...ending.rows.map(toEnded), ...toOthers(others, user.id, reason)]
}

const MORE_THAN_ANY_USER_HAS = 1_000_000

export function openingValues(opening: Opening, now: Date) {
  const { user, session, refreshToken, device } = opening
  return {
    now: formatTime(now),
    userId: user.id,
    passwordHash: user.passwordHash,
    hashDigest: digestOf(user.passwordHash),
    factorsVersion: user.factorsVersion,
    sessionId: session.id,
    sessionEnd: formatTime(session.expiresAt),
    cookieDigest: session.cookieDigest,
    cookieUsedAt: session.cookieDigest && formatTime(now),
    userAgent: session.userAgent,
    ip: session.ip,
    amr: session.amr.join(' '),
    tokenEnd: formatTime(refreshToken.expiresAt),
    deviceId: device?.id ?? null,
    deviceDigest: device?.kind === 'new' ? device.digest : null,
    deviceEnd: device && formatTime(device.expiresAt),
  }
}
type OpeningValues = ReturnType<typeof openingValues>

/**
 * Returns no row if the user has changed since its password was verified. Locks the user, so that logins of one user
 * follow each other: each keeps the last login of the one before, and sees its session.
 */
export const insertSession = prepare<OpeningValues, { id: string }>(
  (at, engine) => sql`insert into sessions (id, user_id, created_at, last_used_at, idle_expires_at,
      purge_at, expires_at, cookie_digest, cookie_used_at, user_agent, ip, amr, device_id,
      ${LAST_LOGIN_COLUMNS})
    select ${at.sessionId}, id, ${at.now}, ${at.now}, ${at.tokenEnd}, ${at.tokenEnd}, ${at.sessionEnd},
      ${at.cookieDigest}, ${at.cookieUsedAt}, ${at.userAgent}, ${at.ip}, ${at.amr}, ${at.deviceId},
      ${LAST_LOGIN_COLUMNS}
    from users where ${isStillVerified(at)}
    ${locking(engine, 'no key update')}
    returning id`,
)

/** Does nothing if the device was revoked meanwhile. */
const noteUse = prepare<OpeningValues>(
  at => sql`update devices set last_used_at = ${at.now}, expires_at = ${at.deviceEnd},
    user_agent = ${at.userAgent} where id = ${at.deviceId}`,
)

const dropDevices = prepare<OpeningValues>(
  ({ userId }, engine) =>
    sql`delete from devices where ${isAmong(engine, 'id', devicesOverLimit(userId))}`,
)

const insertDevice = prepare<OpeningValues>(
  at => sql`insert into devices (id, user_id, token, created_at, last_used_at, expires_at, user_agent)
    values (${at.deviceId}, ${at.userId}, ${at.deviceDigest}, ${at.now}, ${at.now}, ${at.deviceEnd},
      ${at.userAgent})`,
)
