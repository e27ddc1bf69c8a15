// What becomes of a reserved attempt in SQLite, within a transaction that is the only one to write.
import { sql } from 'kysely'
import type { Displaced, EndedSession, ThrottleScope, UsedDevice } from '../../domain/attempt.ts'
import { digestOf } from '../../identifiers.ts'
import { surplusDevices } from '../sql/devices.ts'
import {
  endSurplusInSqlite as endSurplus,
  type Ghost,
  type GhostHoles,
  ghostValues,
  isGhost,
  isReplaced,
  surplusValues,
  toEnded,
} from '../sql/displaced-sessions.ts'
import type { Attempts } from '../sql/engine.ts'
import { prepare, prepareInsert, type Statement } from '../sql/prepared.ts'
import { refreshTokenRow } from '../sql/refresh-tokens.ts'
import {
  isNotLockedByAdministrator,
  keysOf,
  type Moments,
  momentsAt,
  ONE_FAILURE_MORE,
  unknownUserId,
} from '../sql/throttle-rows.ts'
import { toText } from '../sql/values.ts'

/** Runs a statement of the transaction, at once. */
export type Run = <Values, Row>(statement: Statement<Values, Row>, values: Values) => Row[]
export type Transact = <T>(operation: (run: Run) => T) => Promise<T>

export function createSettling(transact: Transact): Omit<Attempts, 'reserveAttempt'> {
  return {
    async releaseAttempt(scopes) {
      await transact(run => run(giveBack, { keys: toJson(scopes) }))
    },

    settleFailure: (scopes, userId, now) => transact(run => fail(run, scopes, userId, now)),

    openSession: ({ user, session, refreshToken, device, displaced }, scopes, now) =>
      transact(run => {
        const [accepted] = run(acceptUser, {
          id: user.id,
          passwordHash: user.passwordHash,
          hashDigest: digestOf(user.passwordHash),
          now: toText(now),
        })
        if (!accepted) {
          fail(run, scopes, user.id, now)
          return null
        }
        run(forgive, { keys: toJson(scopes) })
        const ghosts = endGhosts(run, user.id, displaced, device, now)
        run(insertSession, {
          id: session.id,
          user_id: user.id,
          created_at: toText(now),
          last_used_at: toText(now),
          idle_expires_at: toText(refreshToken.expiresAt),
          expires_at: toText(session.expiresAt),
          cookie_digest: session.cookieDigest,
          cookie_used_at: session.cookieDigest === null ? null : toText(now),
          user_agent: session.userAgent,
          ip: session.ip,
          generation: accepted.session_generation,
          device_id: device?.id ?? null,
        })
        run(insertRefreshToken, refreshTokenRow(user.id, session.id, refreshToken))
        if (device) rememberDevice(run, device, user.id, session.userAgent, now)
        const surplus = run(
          endSurplus,
          surplusValues(now, user.id, session.id, displaced.maxSessions),
        )
        return [
          ...ghosts,
          ...surplus.map(({ id }) => ({ id, userId: user.id, reason: 'limit' as const })),
        ]
      }),
  }
}

function endGhosts(
  run: Run,
  userId: string,
  displaced: Displaced,
  device: UsedDevice | null,
  now: Date,
): EndedSession[] {
  if (displaced.cookieDigest === null && device === null) return []
  const holes = { now: toText(now), userId, ...ghostValues(displaced, device) }
  return run(endGhostSessions, holes).map(toEnded)
}

const endGhostSessions = prepare<GhostHoles, Ghost>((db, holes) =>
  sql<Ghost>`update sessions set ended_at = ${holes.now} where ${isGhost('sqlite', holes)}
    returning id, user_id, ${isReplaced(holes)} as is_replaced`.compile(db),
)

function fail(run: Run, scopes: ThrottleScope[], userId: string | null, now: Date): number {
  run(countFailure, { keys: toJson(scopes), ...momentsAt(now) })
  // The same write for nobody: a failure of an unknown e-mail must not be the cheaper one.
  if (userId === null) {
    run(countNobodysFailure, { id: unknownUserId(scopes) })
    return 0
  }
  const [user] = run(countUsersFailure, { id: userId })
  return user?.failed_login_attempts ?? 0
}

/** However many they are, it is one statement. */
export function toJson(scopes: ThrottleScope[]): string {
  return JSON.stringify(keysOf(scopes))
}

export function isOneOf(keys: string) {
  return sql<boolean>`key in (select value from json_each(${keys}))`
}

const ONE_PENDING_LESS = sql<number>`max(pending - 1, 0)`

const giveBack = prepare<{ keys: string }>((db, { keys }) =>
  db
    .updateTable('login_throttle')
    .set({ pending: ONE_PENDING_LESS })
    .where(isOneOf(keys))
    .compile(),
)

/** Turns a pending attempt into a failure, in a window that starts with the first one. */
const countFailure = prepare<Moments & { keys: string }>((db, at) =>
  db
    .updateTable('login_throttle')
    .set({
      pending: ONE_PENDING_LESS,
      failures: sql`case when window_ends_at <= ${at.now} then 1 else failures + 1 end`,
      window_ends_at: sql`case when failures = 0 or window_ends_at <= ${at.now}
        then ${at.windowEnd} else window_ends_at end`,
      daily_failures: sql`case when scope <> 'email' then 0
        when day_ends_at > ${at.now} then daily_failures + 1 else 1 end`,
      day_ends_at: sql`case when scope <> 'email' then null
        when day_ends_at > ${at.now} then day_ends_at else ${at.dayEnd} end`,
      // A single failure need not be kept for a day: one in each window is allowed anyway.
      expires_at: sql`case when daily_failures > 0 and day_ends_at > ${at.expiry}
        then day_ends_at else ${at.expiry} end`,
    })
    .where(isOneOf(at.keys))
    .compile(),
)

/** A success gives its places back and forgets the failures of its pair or device, nobody else's. */
const forgive = prepare<{ keys: string }>((db, { keys }) =>
  db
    .updateTable('login_throttle')
    .set({
      pending: ONE_PENDING_LESS,
      failures: sql`case when scope in ('pair', 'device') then 0 else failures end`,
    })
    .where(isOneOf(keys))
    .compile(),
)

type UserHoles = { id: string; passwordHash: string; hashDigest: string; now: string }

/** Takes effect only if the user is still as verified. */
const acceptUser = prepare<UserHoles, { session_generation: number }>(
  (db, { id, passwordHash, hashDigest, now }) =>
    db
      .updateTable('users')
      .set({
        failed_login_attempts: 0,
        // A throttle's lock that is still running is the e-mail scope's, which a success spares.
        locked_until: sql`case when locked_until <= ${now} then null else locked_until end`,
        locked_by: sql`case when locked_until <= ${now} then null else locked_by end`,
      })
      .where('id', '=', id)
      // Another login may have made the hash anew meanwhile: it is still the same password.
      .where(user =>
        user.or([user('password_hash', '=', passwordHash), user('upgraded_from', '=', hashDigest)]),
      )
      .where(sql<boolean>`is_active`)
      .where(isNotLockedByAdministrator(now))
      .returning('session_generation')
      .compile(),
)

const countUsersFailure = countingIn('users')
const countNobodysFailure = countingIn('unknown_user')

function countingIn(table: 'users' | 'unknown_user') {
  return prepare<{ id: string }, { failed_login_attempts: number }>((db, { id }) =>
    db
      .updateTable(table)
      .set({ failed_login_attempts: ONE_FAILURE_MORE })
      .where('id', '=', id)
      .returning('failed_login_attempts')
      .compile(),
  )
}

const insertSession = prepareInsert('sessions')
const insertRefreshToken = prepareInsert('refresh_tokens')
const insertDevice = prepareInsert('devices')

/** Makes a device known, or notes that a known one was used; one revoked meanwhile stays so. */
function rememberDevice(
  run: Run,
  device: UsedDevice,
  userId: string,
  userAgent: string,
  now: Date,
): void {
  const used = { last_used_at: toText(now), user_agent: userAgent }
  if (device.kind === 'known') {
    run(noteUse, { id: device.id, ...used })
    return
  }
  run(dropDevices, { userId })
  run(insertDevice, {
    id: device.id,
    user_id: userId,
    token: device.digest,
    created_at: toText(now),
    expires_at: toText(device.expiresAt),
    ...used,
  })
}

const dropDevices = prepare<{ userId: string }>((db, { userId }) =>
  sql`delete from devices where id in (${surplusDevices(userId)})`.compile(db),
)

const noteUse = prepare<{ id: string; last_used_at: string; user_agent: string }>(
  (db, { id, last_used_at, user_agent }) =>
    db.updateTable('devices').set({ last_used_at, user_agent }).where('id', '=', id).compile(),
)
