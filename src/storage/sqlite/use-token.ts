// Replaces a refresh token in SQLite, in one transaction, which holds the only write lock.
import { sql } from 'kysely'
import { HAS_SECOND_FACTOR, isLive } from '../sql/live-session.ts'
import { prepare, run, type Steps, send } from '../sql/prepared.ts'
import { insertToken, type ReplacedRow, type Rotation } from '../sql/token-rows.ts'
import { isNotLockedByAdministrator } from '../sql/user-rows.ts'

export function* useToken(rotation: Rotation): Steps<ReplacedRow | null> {
  const [row] = yield* run(findReplaceable, rotation)
  if (!row) return null
  const ids = { sessionId: row.id, userId: row.user_id }
  yield* send(revoke, rotation)
  yield* send(noteUse, { ...rotation, ...ids })
  const { successorId: id, successorDigest: digest } = rotation
  yield* send(insertToken, { ...rotation, ...ids, id, digest })
  return row
}

const findReplaceable = prepare<Rotation, ReplacedRow>(
  at => sql`select sessions.id, sessions.expires_at, sessions.amr, users.id as user_id, email, name, role,
      users.created_at as user_created_at, ${HAS_SECOND_FACTOR}
    from refresh_tokens token
    join sessions on sessions.id = token.session_id
    join users on users.id = sessions.user_id
    where token.id = ${at.id} and token.token = ${at.digest} and token.revoked_at is null
      and ${isLive(at.now)} and sessions.expires_at >= ${at.expiresAt}
      and users.is_active and ${isNotLockedByAdministrator(at.now)}`,
)

const revoke = prepare<Rotation>(
  at => sql`update refresh_tokens set revoked_at = ${at.now}, successor_id = ${at.successorId}
    where id = ${at.id}`,
)

const noteUse = prepare<Rotation & { sessionId: string }>(
  at => sql`update sessions set last_used_at = ${at.now}, idle_expires_at = ${at.expiresAt}
    where id = ${at.sessionId}`,
)
