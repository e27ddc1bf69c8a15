// The earlier sessions that a login ends: the one whose cookie came along, those that were abandoned
// on the same device, and the least recently used of a user who has too many. Written once for both
// engines, as parts of their statements.
import { type RawBuilder, sql } from 'kysely'
import type { Displaced, EndedSession, UsedDevice } from '../../domain/attempt.ts'
import type { EngineName } from './engine.ts'
import { isLive } from './live-session.ts'
import { prepare } from './prepared.ts'
import { isAmong } from './session-removal.ts'
import { toText } from './values.ts'

/** At most this many end by one login; a user who has many more gets below the limit login by login. */
const SURPLUS_MAX = 100

export type GhostHoles = {
  now: string
  userId: string
  oldCookieDigest: string | null
  deviceId: string | null
  usedBefore: string
}

export function ghostValues(
  { cookieDigest, usedBefore }: Displaced,
  device: UsedDevice | null,
): Omit<GhostHoles, 'now' | 'userId'> {
  return {
    oldCookieDigest: cookieDigest,
    deviceId: device?.id ?? null,
    usedBefore: toText(usedBefore),
  }
}

/** Live sessions that the browser of this login has left behind; each is found by an index. */
export function isGhost(engine: EngineName, holes: GhostHoles) {
  const left = sql`select id from sessions where cookie_digest = ${holes.oldCookieDigest}
    union all
    select id from sessions where device_id = ${holes.deviceId} and ended_at is null
      and user_id = ${holes.userId} and last_used_at <= ${holes.usedBefore}`
  return sql<boolean>`(${isAmong(engine, 'sessions.id', left)} and ${isLive(holes.now)})`
}

export function isReplaced(holes: GhostHoles) {
  return sql`coalesce(sessions.cookie_digest = ${holes.oldCookieDigest}, false)`
}

export type Ghost = { id: string; user_id: string; is_replaced: boolean | number }

export function toEnded({ id, user_id, is_replaced }: Ghost): EndedSession {
  return { id, userId: user_id, reason: is_replaced ? 'replaced' : 'abandoned' }
}

type SurplusHoles = {
  now: string
  userId: string
  newId: string
  maxOthers: number
  candidates: number
}

/** The new session is not one of them, though a clock that is behind makes it look the oldest. */
export function surplusValues(
  now: Date,
  userId: string,
  newId: string,
  maxSessions: number,
): SurplusHoles {
  const maxOthers = maxSessions - 1
  return { now: toText(now), userId, newId, maxOthers, candidates: maxOthers + SURPLUS_MAX }
}

const SURPLUS = sql`select id from surplus`
export const endSurplusInSqlite = prepareSurplus(isAmong('sqlite', 'id', SURPLUS))
/** Locked in the order of every statement that locks several sessions. */
export const endSurplusInPostgres = prepareSurplus(
  isAmong(
    'postgres',
    'id',
    sql`select id from sessions where ${isAmong('postgres', 'id', SURPLUS)} and ended_at is null
      order by created_at, id for no key update`,
  ),
)

/** Exact for a user who has up to `candidates`; of more than that, the first ones are looked at. */
function prepareSurplus(isChosen: RawBuilder<unknown>) {
  return prepare<SurplusHoles, { id: string }>((db, holes) => {
    const { now, userId, newId, maxOthers, candidates } = holes
    const max = sql`cast(${maxOthers} as integer)`
    return sql<{ id: string }>`with eldest as materialized (
        select id, last_used_at from sessions
        where user_id = ${userId} and ${isLive(now, sql`${userId}`)} and id <> ${newId}
        order by created_at, id limit cast(${candidates} as integer)
      ),
      surplus as materialized (
        select id from eldest order by last_used_at, id
        limit (select case when count(*) > ${max} then count(*) - ${max} else 0 end from eldest)
      )
      update sessions set ended_at = ${now} where ${isChosen} returning id`.compile(db)
  })
}
