// Replaces the password of a user, in the transaction of the login that verified the old one. That transaction has
// locked the user, and so sees the sessions of all earlier logins; later ones find that the hash has changed.
import { sql } from 'kysely'
import type { EndedSession, PasswordChange } from '../../domain/attempt.ts'
import { isAmong } from './dialect.ts'
import type { EngineName } from './engine.ts'
import { isNotExpired } from './live-session.ts'
import { prepare } from './prepared.ts'
import { formatTime } from './schema.ts'

type ChangeParameters = {
  now: string
  userId: string
  newSessionId: string
  newHash: string
  keptDeviceId: string | null
}

export function changeValues(
  userId: string,
  newSessionId: string,
  { newHash, keptDeviceId }: PasswordChange,
  now: Date,
): ChangeParameters {
  return { now: formatTime(now), userId, newSessionId, newHash, keptDeviceId }
}

export const replacePassword = prepare<ChangeParameters>((db, { now, userId, newHash }) =>
  sql`update users set password_hash = ${newHash}, upgraded_from = null, temporary_until = null,
    updated_at = ${now} where id = ${userId}`.compile(db),
)

/** A caller that knew the old password may have made its own device known. */
export const forgetOtherDevices = prepare<ChangeParameters>((db, { userId, keptDeviceId }) =>
  sql`delete from devices where user_id = ${userId} and id is distinct from ${keptDeviceId}`.compile(
    db,
  ),
)

type OtherRow = { id: string; was_live: boolean | number }

export const endOthersInSqlite = prepareEnd('sqlite')
export const endOthersInPostgres = prepareEnd('postgres')

/** Like `endAllSessions`, as a prepared statement. */
function prepareEnd(engine: EngineName) {
  const lock = engine === 'postgres' ? sql`for no key update` : sql``
  return prepare<ChangeParameters, OtherRow>((db, { now, userId, newSessionId }) => {
    const others = sql`select id from sessions where user_id = ${userId} and ended_at is null
      and id <> ${newSessionId} order by created_at, id ${lock}`
    return sql<OtherRow>`update sessions set ended_at = ${now}
      where ${isAmong(engine, 'id', others)}
      returning id, ${isNotExpired(now)} as was_live`.compile(db)
  })
}

/** Sessions that had expired are not reported. */
export function toOthers(rows: OtherRow[], userId: string): EndedSession[] {
  return rows.filter(row => row.was_live).map(({ id }) => ({ id, userId, reason: 'password' }))
}
