// Replaces the password of a user, in the transaction of the login that verified the old one. That transaction has
// locked the user, and so sees the sessions of all earlier logins; later ones find that the hash has changed.
import { sql } from 'kysely'
import type { CredentialsChange, EndedSession } from '../../domain/attempt.ts'
import { type EndedRow, endingAll, isOtherOf, liveIds } from './end-all-sessions.ts'
import { prepare } from './prepared.ts'

export function changeValues(
  userId: string,
  newSessionId: string,
  { newHash, keptDeviceId }: CredentialsChange,
  now: string,
) {
  return { now, userId, newSessionId, newHash, keptDeviceId }
}
type ChangeParameters = ReturnType<typeof changeValues>

export const replacePassword = prepare<ChangeParameters>(
  at => sql`update users set password_hash = ${at.newHash}, upgraded_from = null, temporary_until = null,
    failed_second_steps = 0, updated_at = ${at.now} where id = ${at.userId}`,
)

/** A caller that knew the old password may have made its own device known. */
export const forgetOtherDevices = prepare<ChangeParameters>(
  ({ userId, keptDeviceId }) => sql`delete from devices
    where user_id = ${userId} and id is distinct from ${keptDeviceId}`,
)

export const endOthers = prepare<ChangeParameters, EndedRow>(
  ({ now, userId, newSessionId }, engine) =>
    endingAll(engine, isOtherOf(userId, newSessionId), now),
)

export function toOthers(
  rows: EndedRow[],
  userId: string,
  reason: EndedSession['reason'],
): EndedSession[] {
  return liveIds(rows).map(id => ({ id, userId, reason }))
}
