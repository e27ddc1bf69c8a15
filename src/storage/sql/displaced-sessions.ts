// The earlier sessions that a login ends, as parts of both engines' statements. Sessions that the browser has
// left behind: replaced (the login request carried their cookie) or abandoned (same device, no longer used).
// Surplus sessions: the least recently used ones of a user over the limit.
import { type RawBuilder, sql } from 'kysely'
import type { Displaced, EndedSession, UsedDevice } from '../../domain/attempt.ts'
import { isAmong } from './dialect.ts'
import type { EngineName } from './engine.ts'
import { isLive } from './live-session.ts'
import { prepare } from './prepared.ts'
import { formatTime } from './schema.ts'

/** Most surplus sessions that one login ends. If a user has more, the next logins end them. */
const SURPLUS_MAX = 100

export function leftBehindValues(
  { cookieDigest, usedBefore }: Displaced,
  device: UsedDevice | null,
) {
  return {
    oldCookieDigest: cookieDigest,
    deviceId: device?.id ?? null,
    usedBefore: formatTime(usedBefore),
  }
}
export type LeftBehindParameters = ReturnType<typeof leftBehindValues> & {
  now: string
  userId: string
}

/** Live sessions that the browser has left behind. Each of the two kinds is found by an index. */
export function isLeftBehind(engine: EngineName, parameters: LeftBehindParameters) {
  const candidates = sql`select id from sessions where cookie_digest = ${parameters.oldCookieDigest}
    union all
    select id from sessions where device_id = ${parameters.deviceId} and ended_at is null
      and user_id = ${parameters.userId} and last_used_at <= ${parameters.usedBefore}`
  return sql<boolean>`(${isAmong(engine, 'sessions.id', candidates)} and ${isLive(parameters.now)})`
}

export function isReplaced(parameters: LeftBehindParameters) {
  return sql`coalesce(sessions.cookie_digest = ${parameters.oldCookieDigest}, false)`
}

export type LeftBehindRow = { id: string; user_id: string; is_replaced: boolean | number }

export function toEnded({ id, user_id, is_replaced }: LeftBehindRow): EndedSession {
  return { id, userId: user_id, reason: is_replaced ? 'replaced' : 'abandoned' }
}

/** `newId` is excluded: after the clock was set back, the new session looks like the oldest. */
export function surplusValues(now: Date, userId: string, newId: string, maxSessions: number) {
  const maxOthers = maxSessions - 1
  return { now: formatTime(now), userId, newId, maxOthers, candidates: maxOthers + SURPLUS_MAX }
}
type SurplusParameters = ReturnType<typeof surplusValues>

export function toSurplus(rows: { id: string }[], userId: string): EndedSession[] {
  return rows.map(({ id }) => ({ id, userId, reason: 'limit' }))
}

const SURPLUS = sql`select id from surplus`
export const endSurplusInSqlite = prepareSurplus(isAmong('sqlite', 'id', SURPLUS))
/** Locks the sessions in the same order as every other statement, so that no deadlock occurs. */
export const endSurplusInPostgres = prepareSurplus(
  isAmong(
    'postgres',
    'id',
    sql`select id from sessions where ${isAmong('postgres', 'id', SURPLUS)} and ended_at is null
      order by created_at, id for no key update`,
  ),
)

/** Considers the `candidates` oldest sessions only; exact for a user that has no more than these. */
function prepareSurplus(isChosen: RawBuilder<unknown>) {
  return prepare<SurplusParameters, { id: string }>((db, parameters) => {
    const { now, userId, newId, maxOthers, candidates } = parameters
    const max = sql`cast(${maxOthers} as integer)`
    return sql<{ id: string }>`with oldest as materialized (
        select id, last_used_at from sessions
        where user_id = ${userId} and ${isLive(now)} and id <> ${newId}
        order by created_at, id limit cast(${candidates} as integer)
      ),
      surplus as materialized (
        select id from oldest order by last_used_at, id
        limit (select case when count(*) > ${max} then count(*) - ${max} else 0 end from oldest)
      )
      update sessions set ended_at = ${now} where ${isChosen} returning id`.compile(db)
  })
}
