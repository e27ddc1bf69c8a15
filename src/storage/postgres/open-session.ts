// Opens the session of a login in PostgreSQL and settles its attempt as a success, in one statement.
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
import { prepare, type RunStatement } from '../sql/prepared.ts'
import { keysOf } from '../sql/throttle-rows.ts'
import { isNotLockedByAdministrator, LAST_LOGIN_COLUMNS, noteLogin } from '../sql/user-rows.ts'
import { lockedRows, release, SUCCEEDED } from './settle.ts'

/** A change of the password takes several statements: `run` must then be that of a transaction. */
export async function succeed(
  run: RunStatement,
  opening: Opening,
  scopes: ThrottleScope[],
  now: Date,
): Promise<Opened | null> {
  const { user, session, displaced, change } = opening
  const opened = { ...openingValues(opening, now), keys: keysOf(scopes) }
  const [accepted] = await run(openSession, opened)
  if (!accepted) {
    // The statement wrote nothing: the attempt is still pending.
    await release(run, scopes)
    return null
  }
  const ended = accepted.displaced.map(toEnded)
  if (change) {
    // In statements of their own, which see the sessions of all logins that locked the user before.
    const values = changeValues(user.id, session.id, change, now)
    await run(replacePassword, values)
    await run(forgetOtherDevices, values)
    return { ended: [...ended, ...toOthers(await run(endOthers, values), user.id)] }
  }
  const { maxSessions } = displaced
  if (Number(accepted.seen) + UNSEEN_LOGINS < maxSessions) return { ended }
  // A second statement, after the commit: it must see the sessions of parallel logins. If it fails, the
  // login still succeeds, and the next login ends the sessions over the limit.
  const values = limitValues(now, user.id, session.id, maxSessions)
  try {
    return { ended: [...ended, ...toOverLimit(await run(endOverLimit, values), user.id)] }
  } catch (limitError) {
    return { ended, limitError }
  }
}

/**
 * A login's statement does not see the sessions of parallel logins: up to 50 at five instances with 10
 * connections each. If the sessions that it sees and 50 more are below the limit, no session is over it. With
 * more instances, the next login of the user ends what is over the limit.
 */
const UNSEEN_LOGINS = 50

type SuccessParameters = OpeningValues & { keys: string[] }

type Success = {
  /** The user's sessions that have not ended, without the new one, counted up to 1,000. */
  seen: string
  displaced: DisplacedRow[]
}

/** Opens the session and returns a row; does nothing if the user has changed since it was verified. */
const openSession = prepare<SuccessParameters, Success>(
  parameters => sql`with ${lockedRows(parameters.keys)},
    -- Locked before it is changed: the session keeps the last login as the row's newest version has it.
    accepted as materialized (
      select u.id, ${LAST_LOGIN_COLUMNS} from users u, all_locked
      where u.id = ${parameters.userId} and is_active and ${isNotLockedByAdministrator(parameters.now)}
        and (password_hash = ${parameters.passwordHash} or upgraded_from = ${parameters.hashDigest})
      for no key update of u
    ),
    noted as (
      update users u set ${noteLogin(parameters)} from accepted where u.id = accepted.id
    ),
    succeeded as (
      update login_throttle t set ${SUCCEEDED}
      from locked l, accepted where t.key = l.key
    ),
    opened as (
      insert into sessions (id, user_id, created_at, last_used_at, idle_expires_at, purge_at,
        expires_at, cookie_digest, cookie_used_at, user_agent, ip, device_id,
        ${LAST_LOGIN_COLUMNS})
      select ${parameters.sessionId}::uuid, id, ${parameters.now}::timestamptz,
        ${parameters.now}::timestamptz, ${parameters.tokenEnd}::timestamptz,
        ${parameters.tokenEnd}::timestamptz, ${parameters.sessionEnd}::timestamptz, ${parameters.cookieDigest}::text,
        ${parameters.cookieUsedAt}::timestamptz,
        ${parameters.userAgent}::text, ${parameters.ip}::text, ${parameters.deviceId}::uuid,
        ${LAST_LOGIN_COLUMNS}
      from accepted
    ),
    displaced as materialized (
      select sessions.id, user_id, ${isReplaced(parameters)} as is_replaced
      from sessions, accepted where ${isDisplaced('postgres', parameters)}
      order by created_at, sessions.id for no key update of sessions
    ),
    ended as (
      update sessions set ended_at = ${parameters.now} from displaced where sessions.id = displaced.id
    ),
    issued as (
      insert into refresh_tokens (id, user_id, session_id, token, key_id, created_at, expires_at)
      select ${parameters.tokenId}::uuid, id, ${parameters.sessionId}::uuid, ${parameters.tokenDigest}::text,
        ${parameters.keyId}::text, ${parameters.issuedAt}::timestamptz, ${parameters.tokenEnd}::timestamptz
      from accepted
    ),
    used_device as (
      update devices d set last_used_at = ${parameters.now}, user_agent = ${parameters.userAgent},
        expires_at = ${parameters.deviceEnd}::timestamptz
      from accepted where d.id = ${parameters.knownDeviceId}::uuid
    ),
    new_device as (
      insert into devices (id, user_id, token, created_at, last_used_at, expires_at, user_agent)
      select ${parameters.newDeviceId}::uuid, id, ${parameters.deviceDigest}::text,
        ${parameters.now}::timestamptz, ${parameters.now}::timestamptz,
        ${parameters.deviceEnd}::timestamptz, ${parameters.userAgent}::text
      from accepted where ${parameters.newDeviceId}::uuid is not null
    ),
    dropped_devices as (
      delete from devices where id = any (array(${devicesOverLimit(parameters.userId)}))
        and ${parameters.newDeviceId}::uuid is not null and exists (select from accepted)
    )
    select (select coalesce(json_agg(displaced), '[]') from displaced) as displaced,
      (select count(*) from (
        select from sessions where user_id = accepted.id and ended_at is null limit 1000
      ) counted) as seen
    from accepted`,
)
