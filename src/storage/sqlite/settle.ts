// Releases and settles attempts in SQLite, each in one transaction, which holds the only write lock.
import { sql } from 'kysely'
import type {
  Displaced,
  EndedSession,
  NotedLogin,
  Opened,
  Opening,
  ThrottleScope,
  UsedDevice,
} from '../../domain/attempt.ts'
import { WINDOW_MINUTES } from '../../domain/throttle.ts'
import { digestOf } from '../../identifiers.ts'
import {
  changeValues,
  endOthersInSqlite as endOthers,
  forgetOtherDevices,
  replacePassword,
  toOthers,
} from '../sql/change-password.ts'
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
import {
  dummyIdOf,
  keysOf,
  type Moments,
  momentsAt,
  ONE_FAILURE_MORE,
} from '../sql/throttle-rows.ts'
import { isNotLockedByAdministrator, LAST_LOGIN_COLUMNS, noteLogin } from '../sql/user-rows.ts'
import { rememberDevice } from './remember-device.ts'

export function release(run: RunNow, scopes: ThrottleScope[]): void {
  run(releasePending, { keys: toJson(scopes) })
}

export function pass(run: RunNow, scopes: ThrottleScope[], login?: NotedLogin): void {
  run(countSuccess, { keys: toJson(scopes) })
  if (login) run(noteLoginOf, { ...login, now: formatTime(login.at) })
}

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

export function fail(
  run: RunNow,
  scopes: ThrottleScope[],
  userId: string | null,
  now: Date,
): number {
  run(countFailure, { keys: toJson(scopes), ...momentsAt(now) })
  // Writes a dummy row for an unknown email, so that both failures cost the same.
  if (userId === null) {
    run(countDummyFailure, { id: dummyIdOf(scopes) })
    return 0
  }
  const [user] = run(countUserFailure, { id: userId })
  return user?.failed_login_attempts ?? 0
}

/** Passes the keys as one parameter, so that the statement is the same for any number of scopes. */
export function toJson(scopes: ThrottleScope[]): string {
  return JSON.stringify(keysOf(scopes))
}

export function isOneOf(keys: string) {
  return sql<boolean>`key in (select value from json_each(${keys}))`
}

const ONE_PENDING_LESS = sql<number>`max(pending - 1, 0)`

const releasePending = prepare<{ keys: string }>((db, { keys }) =>
  db
    .updateTable('login_throttle')
    .set({ pending: ONE_PENDING_LESS })
    .where(isOneOf(keys))
    .compile(),
)

/** One window after `clears_at`; without it, a text that is before any time. */
const CLEARS_LATER = sql`coalesce(
  strftime('%Y-%m-%dT%H:%M:%fZ', clears_at, ${sql.lit(`${WINDOW_MINUTES} minutes`)}), '')`

/** Turns a pending attempt into a failure; the first failure starts the window. */
const countFailure = prepare<Moments & { keys: string }>((db, at) =>
  db
    .updateTable('login_throttle')
    .set({
      pending: ONE_PENDING_LESS,
      failures: sql`case when window_ends_at <= ${at.now} then 1 else failures + 1 end`,
      window_ends_at: sql`case when failures = 0 or window_ends_at <= ${at.now}
        then ${at.windowEnd} else window_ends_at end`,
      clears_at: sql`case scope when 'email' then max(${CLEARS_LATER}, ${at.windowEnd}) end`,
      expires_at: sql`max(${CLEARS_LATER}, ${at.expiry})`,
    })
    .where(isOneOf(at.keys))
    .compile(),
)

/** Ends a pending attempt as a success, and clears the failures of its pair or device only. */
const countSuccess = prepare<{ keys: string }>((db, { keys }) =>
  db
    .updateTable('login_throttle')
    .set({
      pending: ONE_PENDING_LESS,
      failures: sql`case when scope in ('pair', 'device') then 0 else failures end`,
    })
    .where(isOneOf(keys))
    .compile(),
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

const noteLoginOf = prepare<Pick<OpenParameters, 'userId' | 'now' | 'userAgent' | 'ip'>>((db, at) =>
  sql`update users set ${noteLogin(at)} where id = ${at.userId}`.compile(db),
)

const countUserFailure = countingIn('users')
const countDummyFailure = countingIn('unknown_user')

function countingIn(table: 'users' | 'unknown_user') {
  return prepare<{ id: string }, { failed_login_attempts: number }>((db, { id }) =>
    sql<{ failed_login_attempts: number }>`update ${sql.table(table)} set ${ONE_FAILURE_MORE}
      where id = ${id} returning failed_login_attempts`.compile(db),
  )
}

export const insertRefreshToken = prepareInsert('refresh_tokens')
