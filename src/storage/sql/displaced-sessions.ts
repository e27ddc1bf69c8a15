// The earlier sessions that a login ends, or displaces, as parts of both engines' statements. The reasons: `replaced` (the
// login request carried their cookie), `abandoned` (same device, no longer used) and `limit` (the least recently used
// ones of a user that has too many).
import { sql } from 'kysely'
import type { Displaced, EndedSession, UsedDevice } from '../../domain/attempt.ts'
import { isAmong } from './dialect.ts'
import type { EngineName } from './engine.ts'
import { isLive } from './live-session.ts'
import { prepare } from './prepared.ts'
import { formatTime } from './schema.ts'

/** Most sessions over the limit that one login ends. If a user has more, the next logins end them. */
const MAX_OVER_LIMIT = 100

export function displacedValues(
  { cookieDigest, usedBefore }: Displaced,
  device: UsedDevice | null,
) {
  return {
    oldCookieDigest: cookieDigest,
    deviceId: device?.id ?? null,
    usedBefore: formatTime(usedBefore),
  }
}
export type DisplacedParameters = ReturnType<typeof displacedValues> & {
  now: string
  userId: string
}

/** Live sessions of the same browser. Those of each reason are found by an index. */
export function isDisplaced(engine: EngineName, parameters: DisplacedParameters) {
  const candidates = sql`select id from sessions where cookie_digest = ${parameters.oldCookieDigest}
    union all
    select id from sessions where device_id = ${parameters.deviceId} and ended_at is null
      and user_id = ${parameters.userId} and last_used_at <= ${parameters.usedBefore}`
  return sql<boolean>`(${isAmong(engine, 'sessions.id', candidates)} and ${isLive(parameters.now)})`
}

export function isReplaced(parameters: DisplacedParameters) {
  return sql`coalesce(sessions.cookie_digest = ${parameters.oldCookieDigest}, false)`
}

export type DisplacedRow = { id: string; user_id: string; is_replaced: boolean | number }

export function toEnded({ id, user_id, is_replaced }: DisplacedRow): EndedSession {
  return { id, userId: user_id, reason: is_replaced ? 'replaced' : 'abandoned' }
}

/** `newId` is excluded: after the clock was set back, the new session looks like the oldest. */
export function limitValues(now: Date, userId: string, newId: string, maxSessions: number) {
  const maxOthers = maxSessions - 1
  return { now: formatTime(now), userId, newId, maxOthers, candidates: maxOthers + MAX_OVER_LIMIT }
}

export function toOverLimit(rows: { id: string }[], userId: string): EndedSession[] {
  return rows.map(({ id }) => ({ id, userId, reason: 'limit' }))
}

/**
 * Considers the `candidates` oldest sessions only; exact for a user that has no more than these. PostgreSQL locks the
 * sessions in the same order as by every other statement, so that no deadlock occurs.
 */
export const endOverLimit = prepare<ReturnType<typeof limitValues>, { id: string }>(
  ({ now, userId, newId, maxOthers, candidates }, engine) => {
    const max = sql`cast(${maxOthers} as integer)`
    const overLimit = sql`select id from over_limit`
    const locked = sql`select id from sessions where ${isAmong(engine, 'id', overLimit)}
      and ended_at is null order by created_at, id for no key update`
    return sql`with oldest as materialized (
        select id, last_used_at from sessions
        where user_id = ${userId} and ${isLive(now)} and id <> ${newId}
        order by created_at, id limit cast(${candidates} as integer)
      ),
      over_limit as materialized (
        select id from oldest order by last_used_at, id
        limit (select case when count(*) > ${max} then count(*) - ${max} else 0 end from oldest)
      )
      update sessions set ended_at = ${now}
      where ${isAmong(engine, 'id', engine === 'postgres' ? locked : overLimit)}
      returning id`
  },
)
