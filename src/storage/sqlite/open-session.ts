// Opens the session of a login in SQLite and settles its attempt as a success, in one transaction.
import { sql } from 'kysely'
import type { Opened, Opening, ThrottleScope } from '../../domain/attempt.ts'
import {
  changeValues,
  endOthers,
  forgetOtherDevices,
  replacePassword,
  toOthers,
} from '../sql/change-password.ts'
import { devicesOverLimit } from '../sql/device.ts'
import {
  type DisplacedRow,
  endOverLimit,
  isDisplaced,
  isReplaced,
  limitValues,
  toEnded,
  toOverLimit,
} from '../sql/displaced-sessions.ts'
import { type OpeningValues, openingValues } from '../sql/opening.ts'
import { prepare, type RunNow } from '../sql/prepared.ts'
import { isNotLockedByAdministrator, LAST_LOGIN_COLUMNS } from '../sql/user-rows.ts'
import { countSuccess, noteLoginOf, release, toJson } from './settle.ts'

export function succeed(
  run: RunNow,
  opening: Opening,
  scopes: ThrottleScope[],
  now: Date,
): Opened | null {
  const { user, session, device, displaced, change } = opening
  const values = openingValues(opening, now)
  const [opened] = run(insertSession, values)
  if (!opened) {
    release(run, scopes)
    return null
  }
  run(noteLoginOf, values)
  run(countSuccess, { keys: toJson(scopes) })
  const mayDisplace = displaced.cookieDigest !== null || device !== null
  const ended = mayDisplace ? run(endDisplaced, values).map(toEnded) : []
  run(insertToken, values)
  if (device?.kind === 'known') run(noteUse, values)
  if (device?.kind === 'new') {
    run(dropDevices, values)
    run(insertDevice, values)
  }
  if (change) {
    const changed = changeValues(user.id, session.id, change, now)
    run(replacePassword, changed)
    run(forgetOtherDevices, changed)
    return { ended: [...ended, ...toOthers(run(endOthers, changed), user.id)] }
  }
  const limit = limitValues(now, user.id, session.id, displaced.maxSessions)
  return { ended: [...ended, ...toOverLimit(run(endOverLimit, limit), user.id)] }
}

/** Returns no row if the user has changed since its password was verified. Runs before the login is noted. */
const insertSession = prepare<OpeningValues, { id: string }>(
  at => sql`insert into sessions (id, user_id, created_at, last_used_at, idle_expires_at,
      purge_at, expires_at, cookie_digest, cookie_used_at, user_agent, ip, device_id,
      ${LAST_LOGIN_COLUMNS})
    select ${at.sessionId}, id, ${at.now}, ${at.now}, ${at.tokenEnd}, ${at.tokenEnd}, ${at.sessionEnd},
      ${at.cookieDigest}, ${at.cookieUsedAt}, ${at.userAgent}, ${at.ip}, ${at.deviceId},
      ${LAST_LOGIN_COLUMNS}
    from users where id = ${at.userId} and is_active and ${isNotLockedByAdministrator(at.now)}
      -- A parallel login may have upgraded the hash; the password is still the same.
      and (password_hash = ${at.passwordHash} or upgraded_from = ${at.hashDigest})
    returning id`,
)

const endDisplaced = prepare<OpeningValues, DisplacedRow>(
  at => sql`update sessions set ended_at = ${at.now} where ${isDisplaced('sqlite', at)}
    returning id, user_id, ${isReplaced(at)} as is_replaced`,
)

const insertToken = prepare<OpeningValues>(
  at => sql`insert into refresh_tokens (id, user_id, session_id, token, key_id, created_at, expires_at)
    values (${at.tokenId}, ${at.userId}, ${at.sessionId}, ${at.tokenDigest}, ${at.keyId},
      ${at.issuedAt}, ${at.tokenEnd})`,
)

/** Does nothing if the device was revoked meanwhile. */
const noteUse = prepare<OpeningValues>(
  at => sql`update devices set last_used_at = ${at.now}, expires_at = ${at.deviceEnd},
    user_agent = ${at.userAgent} where id = ${at.deviceId}`,
)

const dropDevices = prepare<OpeningValues>(
  ({ userId }) => sql`delete from devices where id in (${devicesOverLimit(userId)})`,
)

const insertDevice = prepare<OpeningValues>(
  at => sql`insert into devices (id, user_id, token, created_at, last_used_at, expires_at, user_agent)
    values (${at.deviceId}, ${at.userId}, ${at.deviceDigest}, ${at.now}, ${at.now}, ${at.deviceEnd},
      ${at.userAgent})`,
)
