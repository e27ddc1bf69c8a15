// The earlier sessions that a login ends, or displaces. The reasons: `replaced` (the login request carried their
// cookie), `abandoned` (same device, no longer used) and `limit` (the least recently used ones of a user that has too
// many).
import { sql } from 'kysely'
import type { Displaced, EndedSession } from '../../domain/attempt.ts'
import { isAmong, locking } from './dialect.ts'
import { isLive } from './live-session.ts'
import { prepare } from './prepared.ts'
import { formatTime } from './schema.ts'

/** Most sessions over the limit that one login ends. If a user has more, the next logins end them. */
const MAX_OVER_LIMIT = 100

/** What displaces nothing of the same browser. */
export const NO_BROWSER = { cookieDigest: null, usedBefore: new Date(0), deviceId: null }

/** `newId` is excluded: after the clock was set back, the new session looks like the oldest. */
export function displacedValues(
  ids: { now: string; userId: string; newId: string },
  displaced: Displaced & { deviceId: string | null },
) {
  const maxOthers = displaced.maxSessions - 1
  return {
    ...ids,
    deviceId: displaced.deviceId,
    cookieDigest: displaced.cookieDigest,
    usedBefore: formatTime(displaced.usedBefore),
    ...{ maxOthers, candidates: maxOthers + MAX_OVER_LIMIT },
  }
}

export type DisplacedRow = { id: string; user_id: string } & Record<
  'is_replaced' | 'is_abandoned',
  boolean | number
>

/**
 * Sessions of the same browser are found by an index for each reason. For the limit it considers the `candidates` oldest
 * sessions only; exact for a user that has no more than these. All sessions are locked in the same order as by every
 * other statement, so that no deadlock occurs.
 */
export const endDisplaced = prepare<ReturnType<typeof displacedValues>, DisplacedRow>(
  (at, engine) => {
    const { now, userId, newId, deviceId, cookieDigest, usedBefore, maxOthers, candidates } = at
    const max = sql`cast(${maxOthers} as integer)`
    const ofBrowser = sql`select id from sessions where cookie_digest = ${cookieDigest}
      union all
      select id from sessions where device_id = ${deviceId} and ended_at is null
        and user_id = ${userId} and last_used_at <= ${usedBefore}`
    const displaced = sql`select id from of_browser union all select id from over_limit`
    const inOrder = sql`select id from sessions where ${isAmong(engine, 'id', displaced)}
      and ended_at is null order by created_at, id ${locking(engine, 'no key update')}`
    return sql`with of_browser as materialized (
        select id from sessions where ${isAmong(engine, 'id', ofBrowser)} and ${isLive(now)}
      ),
      oldest as materialized (
        select id, last_used_at from sessions
        where user_id = ${userId} and ${isLive(now)} and id <> ${newId}
          and id not in (select id from of_browser)
        order by created_at, id limit cast(${candidates} as integer)
      ),
      over_limit as materialized (
        select id from oldest order by last_used_at, id
        limit (select case when count(*) > ${max} then count(*) - ${max} else 0 end from oldest)
      )
      update sessions set ended_at = ${now} where ${isAmong(engine, 'id', inOrder)}
      returning id, user_id, coalesce(cookie_digest = ${cookieDigest}, false) as is_replaced,
        coalesce(device_id = ${deviceId} and user_id = ${userId} and last_used_at <= ${usedBefore},
          false) as is_abandoned`
  },
)

export function toEnded(row: DisplacedRow): EndedSession {
  const reason = row.is_replaced ? 'replaced' : row.is_abandoned ? 'abandoned' : 'limit'
  return { id: row.id, userId: row.user_id, reason }
}
