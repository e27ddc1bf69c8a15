// What becomes of a reserved attempt, each in one statement of PostgreSQL: one round trip, and locks
// that are held no longer than it takes.
import { sql } from 'kysely'
import { digestOf } from '../../identifiers.ts'
import { surplusDevices } from '../sql/devices.ts'
import {
  endSurplusInPostgres as endSurplus,
  type Ghost,
  type GhostHoles,
  ghostValues,
  isGhost,
  isReplaced,
  surplusValues,
  toEnded,
} from '../sql/displaced-sessions.ts'
import type { Attempts } from '../sql/engine.ts'
import { prepare, type Statement } from '../sql/prepared.ts'
import {
  isNotLockedByAdministrator,
  keysOf,
  type Moments,
  momentsAt,
  ONE_FAILURE_MORE,
  unknownUserId,
} from '../sql/throttle-rows.ts'
import { toText } from '../sql/values.ts'

export type Run = <Values, Row>(statement: Statement<Values, Row>, values: Values) => Promise<Row[]>

export function createSettling(run: Run): Omit<Attempts, 'reserveAttempt'> {
  const settling: Omit<Attempts, 'reserveAttempt'> = {
    async releaseAttempt(scopes) {
      await run(giveBack, { keys: keysOf(scopes) })
    },

    async settleFailure(scopes, userId, now) {
      const holes = { ...momentsAt(now), keys: keysOf(scopes) }
      if (userId === null) {
        await run(failNobody, { ...holes, userId: unknownUserId(scopes) })
        return 0
      }
      const [user] = await run(failUser, { ...holes, userId })
      return user?.failed_login_attempts ?? 0
    },

    async openSession({ user, session, refreshToken, device, displaced }, scopes, now) {
      const [accepted] = await run(succeed, {
        ...ghostValues(displaced, device),
        now: toText(now),
        keys: keysOf(scopes),
        userId: user.id,
        passwordHash: user.passwordHash,
        hashDigest: digestOf(user.passwordHash),
        sessionId: session.id,
        sessionEnd: toText(session.expiresAt),
        cookieDigest: session.cookieDigest,
        userAgent: session.userAgent,
        ip: session.ip,
        tokenId: refreshToken.id,
        tokenDigest: refreshToken.digest,
        keyId: refreshToken.keyId,
        issuedAt: toText(refreshToken.issuedAt),
        tokenEnd: toText(refreshToken.expiresAt),
        knownDeviceId: device?.kind === 'known' ? device.id : null,
        newDeviceId: device?.kind === 'new' ? device.id : null,
        deviceDigest: device?.kind === 'new' ? device.digest : null,
        deviceEnd: device?.kind === 'new' ? toText(device.expiresAt) : null,
      })
      if (!accepted) {
        // Nothing was written: the attempt is still pending.
        await settling.settleFailure(scopes, user.id, now)
        return null
      }
      const ended = accepted.ghosts.map(toEnded)
      const { maxSessions } = displaced
      if (Number(accepted.seen) + UNSEEN_LOGINS < maxSessions) return ended
      // A statement of its own, after the commit: it sees what parallel logins have opened. If it fails, the
      // session is open all the same, and the next login ends what is too many.
      const values = surplusValues(now, user.id, session.id, maxSessions)
      const surplus = await run(endSurplus, values).catch(() => [])
      return [
        ...ended,
        ...surplus.map(({ id }) => ({ id, userId: user.id, reason: 'limit' as const })),
      ]
    },
  }
  return settling
}

/**
 * In the order of their keys, as every other statement does it; and as they are now. Whoever reads the
 * count has them all before it changes one: a row that was changed makes an insertion of it wait, by
 * somebody who may hold the next.
 */
const lockedRows = (keys: string[]) => sql`locked as materialized (
    select * from login_throttle where key = any (${keys}) order by key for update
  ),
  all_locked as materialized (select count(*) from locked)`
const ONE_PENDING_LESS = sql`greatest(l.pending - 1, 0)`

const giveBack = prepare<{ keys: string[] }>((db, { keys }) =>
  sql`with ${lockedRows(keys)}
    update login_throttle t set pending = ${ONE_PENDING_LESS}
    from locked l, all_locked where t.key = l.key`.compile(db),
)

type FailureHoles = Moments & { keys: string[]; userId: string }

const failUser = prepareFailure('users')
const failNobody = prepareFailure('unknown_user')

function prepareFailure(table: 'users' | 'unknown_user') {
  return prepare<FailureHoles, { failed_login_attempts: number }>((db, holes) =>
    sql<{ failed_login_attempts: number }>`with ${lockedRows(holes.keys)},
    counted as (
      update login_throttle t set pending = ${ONE_PENDING_LESS},
        failures = case when l.window_ends_at <= ${holes.now} then 1 else l.failures + 1 end,
        window_ends_at = case when l.failures = 0 or l.window_ends_at <= ${holes.now}
          then ${holes.windowEnd} else l.window_ends_at end,
        daily_failures = case when l.scope <> 'email' then 0
          when l.day_ends_at > ${holes.now} then l.daily_failures + 1 else 1 end,
        day_ends_at = case when l.scope <> 'email' then null
          when l.day_ends_at > ${holes.now} then l.day_ends_at else ${holes.dayEnd} end,
        -- A single failure need not be kept for a day: one in each window is allowed anyway.
        expires_at = case when l.daily_failures > 0 and l.day_ends_at > ${holes.expiry}
          then l.day_ends_at else ${holes.expiry} end
      from locked l, all_locked where t.key = l.key returning t.key
    )
    update ${sql.table(table)} u set failed_login_attempts = ${ONE_FAILURE_MORE}
    from (select count(*) from counted) after
    where u.id = ${holes.userId} returning u.failed_login_attempts`.compile(db),
  )
}

/**
 * A login's statement does not see the sessions of logins that run beside it. There are at most as many
 * of these as connections: 50 are those of five instances. A user who is further away from the limit
 * has not reached it.
 */
const UNSEEN_LOGINS = 50

type SuccessHoles = GhostHoles & {
  keys: string[]
  passwordHash: string
  hashDigest: string
  sessionId: string
  sessionEnd: string
  cookieDigest: string | null
  userAgent: string
  ip: string
  tokenId: string
  tokenDigest: string
  keyId: string
  issuedAt: string
  tokenEnd: string
  knownDeviceId: string | null
  newDeviceId: string | null
  deviceDigest: string | null
  deviceEnd: string | null
}

type Success = {
  /** Sessions of the user that have not ended, counted up to what matters, without the new one. */
  seen: string
  ghosts: Ghost[]
}

/** Takes effect, as a whole, only if the user is still as verified; then it returns a row. */
const succeed = prepare<SuccessHoles, Success>((db, holes) =>
  sql<Success>`with ${lockedRows(holes.keys)},
    accepted as (
      update users u set failed_login_attempts = 0,
        locked_until = case when locked_until <= ${holes.now} then null else locked_until end,
        locked_by = case when locked_until <= ${holes.now} then null else locked_by end
      from all_locked
      where u.id = ${holes.userId} and is_active and ${isNotLockedByAdministrator(holes.now)}
        and (password_hash = ${holes.passwordHash} or upgraded_from = ${holes.hashDigest})
      returning u.id, u.session_generation
    ),
    forgiven as (
      update login_throttle t set pending = ${ONE_PENDING_LESS},
        failures = case when l.scope in ('pair', 'device') then 0 else l.failures end
      from locked l, accepted where t.key = l.key
    ),
    opened as (
      insert into sessions (id, user_id, created_at, last_used_at, idle_expires_at, expires_at,
        cookie_digest, cookie_used_at, user_agent, ip, generation, device_id)
      select ${holes.sessionId}::uuid, id, ${holes.now}::timestamptz, ${holes.now}::timestamptz,
        ${holes.tokenEnd}::timestamptz, ${holes.sessionEnd}::timestamptz, ${holes.cookieDigest}::text,
        case when ${holes.cookieDigest}::text is not null then ${holes.now}::timestamptz end,
        ${holes.userAgent}::text, ${holes.ip}::text, session_generation, ${holes.deviceId}::uuid
      from accepted
    ),
    ghosts as materialized (
      select sessions.id, user_id, ${isReplaced(holes)} as is_replaced
      from sessions, accepted where ${isGhost('postgres', holes)}
      order by created_at, sessions.id for no key update of sessions
    ),
    ended as (
      update sessions set ended_at = ${holes.now} from ghosts where sessions.id = ghosts.id
    ),
    issued as (
      insert into refresh_tokens (id, user_id, session_id, token, key_id, created_at, expires_at)
      select ${holes.tokenId}::uuid, id, ${holes.sessionId}::uuid, ${holes.tokenDigest}::text,
        ${holes.keyId}::text, ${holes.issuedAt}::timestamptz, ${holes.tokenEnd}::timestamptz
      from accepted
    ),
    used_device as (
      update devices d set last_used_at = ${holes.now}, user_agent = ${holes.userAgent}
      from accepted where d.id = ${holes.knownDeviceId}::uuid
    ),
    new_device as (
      insert into devices (id, user_id, token, created_at, last_used_at, expires_at, user_agent)
      select ${holes.newDeviceId}::uuid, id, ${holes.deviceDigest}::text, ${holes.now}::timestamptz,
        ${holes.now}::timestamptz, ${holes.deviceEnd}::timestamptz, ${holes.userAgent}::text
      from accepted where ${holes.newDeviceId}::uuid is not null
    ),
    dropped_devices as (
      delete from devices where id = any (array(${surplusDevices(holes.userId)}))
        and ${holes.newDeviceId}::uuid is not null and exists (select from accepted)
    )
    select (select coalesce(json_agg(ghosts), '[]') from ghosts) as ghosts,
      (select count(*) from (
        select from sessions where user_id = accepted.id and generation = accepted.session_generation
          and ended_at is null limit 1000
      ) counted) as seen
    from accepted`.compile(db),
)
