// Finds a refresh token in SQLite and replaces it, in one transaction, which holds the only write lock.
import { sql } from 'kysely'
import { prepare, type RunNow } from '../sql/prepared.ts'
import { findToken, type Rotation, type TokenRow, type UsedToken } from '../sql/token-rows.ts'
import { insertRefreshToken } from './settle.ts'

export function useToken(run: RunNow, rotation: Rotation): UsedToken | null {
  const [row] = run(findToken, rotation)
  if (!row) return null
  const isReplaced = mayBeReplaced(row, rotation)
  if (isReplaced) {
    run(revoke, rotation)
    run(noteUse, { ...rotation, sessionId: row.id })
    run(insertRefreshToken, {
      id: rotation.successorId,
      user_id: row.user_id,
      session_id: row.id,
      token: rotation.successorDigest,
      key_id: rotation.keyId,
      created_at: rotation.issuedAt,
      expires_at: rotation.expiresAt,
      request_digest: rotation.requestDigest,
      client_digest: rotation.clientDigest,
    })
  }
  return { row, isReplaced }
}

function mayBeReplaced(row: TokenRow, { expiresAt }: Rotation): boolean {
  const isUsable = row.is_live && row.is_active && row.is_not_locked
  return row.token_revoked_at === null && Boolean(isUsable) && row.expires_at >= expiresAt
}

const revoke = prepare<Rotation>((db, { id, successorId, now }) =>
  sql`update refresh_tokens set revoked_at = ${now}, successor_id = ${successorId}
    where id = ${id}`.compile(db),
)

const noteUse = prepare<Rotation & { sessionId: string }>((db, { sessionId, now, expiresAt }) =>
  sql`update sessions set last_used_at = ${now}, idle_expires_at = ${expiresAt}
    where id = ${sessionId}`.compile(db),
)
