// Replaces a refresh token in SQLite, in one transaction, which holds the only write lock.
import { sql } from 'kysely'
import { isLive } from '../sql/live-session.ts'
import { prepare } from '../sql/prepared.ts'
import type { Rotation } from '../sql/refresh-tokens.ts'
import type { Run } from './settle.ts'

/** False if the token is revoked or its session is not live. */
export function rotate(run: Run, rotation: Rotation): boolean {
  if (run(revoke, rotation).length === 0) return false
  run(noteUse, rotation)
  run(insertSuccessor, rotation)
  return true
}

const revoke = prepare<Rotation, { id: string }>((db, { id, sessionId, successorId, now }) =>
  sql<{ id: string }>`update refresh_tokens set revoked_at = ${now}, successor_id = ${successorId}
    where id = ${id} and revoked_at is null
      and exists (select 1 from sessions where id = ${sessionId} and ${isLive(now)})
    returning id`.compile(db),
)

const noteUse = prepare<Rotation>((db, { sessionId, now, expiresAt }) =>
  sql`update sessions set last_used_at = ${now}, idle_expires_at = ${expiresAt}
    where id = ${sessionId}`.compile(db),
)

const insertSuccessor = prepare<Rotation>((db, values) =>
  sql`insert into refresh_tokens (id, user_id, session_id, token, key_id, created_at, expires_at)
    select ${values.successorId}, user_id, id, ${values.digest}, ${values.keyId}, ${values.issuedAt},
      ${values.expiresAt}
    from sessions where id = ${values.sessionId}`.compile(db),
)
