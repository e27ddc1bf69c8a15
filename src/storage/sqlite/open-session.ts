// Opens the session of a login in SQLite and settles its attempt as a success, in one transaction.
import { sql } from 'kysely'
import type {
  Displaced,
  EndedSession,
  Opened,
  Opening,
  ThrottleScope,
  UsedDevice,
} from '../../domain/attempt.ts'
import { digestOf } from '../../system/identifiers.ts'
import {
  changeValues,
  endOthersInSqlite as endOthers,
  forgetOtherDevices,
  replacePassword,
  toOthers,
} from '../sql/change-password.ts'
import { surplusDevices } from '../sql/device.ts'
import {
  endSurplusInSqlite as endSurplus,
  isLeftBehind,
  isReplaced,
  type LeftBehindParameters,
  type LeftBehindRow,
  leftBehindValues,
  surplusValues,
  toEnded,
  toSurplus,
} from '../sql/displaced-sessions.ts'
import { prepare, prepareInsert, type RunNow } from '../sql/prepared.ts'
import { refreshTokenRow } from '../sql/refresh-token.ts'
import { formatTime } from '../sql/schema.ts'
import { isNotLockedByAdministrator, LAST_LOGIN_COLUMNS } from '../sql/user-rows.ts'
import { countSuccess, noteLoginOf, release, toJson } from './settle.ts'

export const insertRefreshToken = prepareInsert('refresh_tokens')
const insertDevice = prepareInsert('devices')

export function succeed(
  run: RunNow,
  { user, session, refreshToken, device, displaced, change }: Opening,
  scopes: ThrottleScope[],
  now: Date,
): Opened | null {
  const { userAgent, ip, cookieDigest } = session
  const [opened] = run(insertSession, {
    sessionId: session.id,
    userId: user.id,
    passwordHash: user.passwordHash,
    hashDigest: digestOf(user.passwordHash),
    now: formatTime(now),
    tokenEnd: formatTime(refreshToken.expiresAt),
    sessionEnd: formatTime(session.expiresAt),
    cookieDigest,
    cookieUsedAt: cookieDigest === null ? null : formatTime(now),
    userAgent,
    ip,
    deviceId: device?.id ?? null,
  })
  if (!opened) {
    release(run, scopes)
    return null
  }
  run(noteLoginOf, { userId: user.id, now: formatTime(now), userAgent, ip })
  run(countSuccess, { keys: toJson(scopes) })
  const leftBehind = endLeftBehind(run, user.id, displaced, device, now)
  run(insertRefreshToken, refreshTokenRow(user.id, session.id, refreshToken))
  if (device) rememberDevice(run, device, user.id, session.userAgent, now)
  if (change) {
    const values = changeValues(user.id, session.id, change, now)
    run(replacePassword, values)
    run(forgetOtherDevices, values)
    return { ended: [...leftBehind, ...toOthers(run(endOthers, values), user.id)] }
  }
  const surplus = run(endSurplus, surplusValues(now, user.id, session.id, displaced.maxSessions))
  return { ended: [...leftBehind, ...toSurplus(surplus, user.id)] }
}

function endLeftBehind(
  run: RunNow,
  userId: string,
  displaced: Displaced,
  device: UsedDevice | null,
  now: Date,
): EndedSession[] {
  if (displaced.cookieDigest === null && device === null) return []
  const parameters = { now: formatTime(now), userId, ...leftBehindValues(displaced, device) }
  return run(endLeftBehindSessions, parameters).map(toEnded)
}

const endLeftBehindSessions = prepare<LeftBehindParameters, LeftBehindRow>((db, parameters) =>
  sql<LeftBehindRow>`update sessions set ended_at = ${parameters.now}
    where ${isLeftBehind('sqlite', parameters)}
    returning id, user_id, ${isReplaced(parameters)} as is_replaced`.compile(db),
)

type OpenParameters = {
  sessionId: string
  userId: string
  passwordHash: string
  hashDigest: string
  now: string
  tokenEnd: string
  sessionEnd: string
  cookieDigest: string | null
  cookieUsedAt: string | null
  userAgent: string
  ip: string
  deviceId: string | null
}

/** Returns no row if the user has changed since its password was verified. Runs before the login is noted. */
const insertSession = prepare<OpenParameters, { id: string }>((db, at) =>
  sql<{ id: string }>`insert into sessions (id, user_id, created_at, last_used_at, idle_expires_at,
      purge_at, expires_at, cookie_digest, cookie_used_at, user_agent, ip, device_id,
      ${LAST_LOGIN_COLUMNS})
    select ${at.sessionId}, id, ${at.now}, ${at.now}, ${at.tokenEnd}, ${at.tokenEnd}, ${at.sessionEnd},
      ${at.cookieDigest}, ${at.cookieUsedAt}, ${at.userAgent}, ${at.ip}, ${at.deviceId},
      ${LAST_LOGIN_COLUMNS}
    from users where id = ${at.userId} and is_active and ${isNotLockedByAdministrator(at.now)}
      -- A parallel login may have upgraded the hash; the password is still the same.
      and (password_hash = ${at.passwordHash} or upgraded_from = ${at.hashDigest})
    returning id`.compile(db),
)

/** Stores a new device, or notes the use of a known one, unless that was revoked meanwhile. */
function rememberDevice(
  run: RunNow,
  device: UsedDevice,
  userId: string,
  userAgent: string,
  now: Date,
): void {
  const used = {
    last_used_at: formatTime(now),
    expires_at: formatTime(device.expiresAt),
    user_agent: userAgent,
  }
  if (device.kind === 'known') {
    run(noteUse, { id: device.id, ...used })
    return
  }
  run(dropDevices, { userId })
  run(insertDevice, {
    id: device.id,
    user_id: userId,
    token: device.digest,
    created_at: formatTime(now),
    ...used,
  })
}

const dropDevices = prepare<{ userId: string }>((db, { userId }) =>
  sql`delete from devices where id in (${surplusDevices(userId)})`.compile(db),
)

type DeviceUse = { id: string; last_used_at: string; expires_at: string; user_agent: string }

const noteUse = prepare<DeviceUse>((db, { id, last_used_at, expires_at, user_agent }) =>
  db
    .updateTable('devices')
    .set({ last_used_at, expires_at, user_agent })
    .where('id', '=', id)
    .compile(),
)
