// Refresh tokens: a token is read together with its session, its user and its successor. Each engine has its own
// rotation.
import { type Insertable, sql } from 'kysely'
import type { NewRefreshToken, SessionStore } from '../../domain/session.ts'
import type { Engine } from './engine.ts'
import { type SessionWithUser, sessionWithUser, toLive } from './live-session.ts'
import { prepare } from './prepared.ts'
import { formatTime, parseTime, parseTimeOrNull, type Schema } from './schema.ts'

type RefreshTokens = Pick<SessionStore, 'findRefreshToken' | 'rotateRefreshToken'>

export function createRefreshTokens(engine: Engine): RefreshTokens {
  return {
    async findRefreshToken(id, digest, now) {
      const [row] = await engine.readPrepared(findToken, { id, digest, now: formatTime(now) })
      if (!row) return { kind: 'invalid', reason: 'unknown-token' }
      const live = toLive(row, now)
      if (live.kind === 'invalid') return live
      return {
        kind: 'found',
        live,
        revokedAt: parseTimeOrNull(row.token_revoked_at),
        successor:
          row.successor_id === null
            ? null
            : {
                id: row.successor_id,
                keyId: row.successor_key_id,
                issuedAt: parseTime(row.successor_created_at),
                expiresAt: parseTime(row.successor_expires_at),
                isRevoked: row.successor_revoked_at !== null,
              },
      }
    },

    rotateRefreshToken: engine.rotateRefreshToken,
  }
}

type StoredTime = Date | string
type SuccessorRow =
  | { successor_id: null }
  | {
      successor_id: string
      successor_key_id: string
      successor_created_at: StoredTime
      successor_expires_at: StoredTime
      successor_revoked_at: StoredTime | null
    }
type TokenRow = SessionWithUser & { token_revoked_at: StoredTime | null } & SuccessorRow

const findToken = prepare<{ id: string; digest: string; now: string }, TokenRow>(
  (db, { id, digest, now }) =>
    sql<TokenRow>`select ${sessionWithUser(now)}, token.revoked_at as token_revoked_at,
      successor.id as successor_id, successor.key_id as successor_key_id,
      successor.created_at as successor_created_at, successor.expires_at as successor_expires_at,
      successor.revoked_at as successor_revoked_at
    from refresh_tokens token
    join sessions on sessions.id = token.session_id
    join users on users.id = sessions.user_id
    left join refresh_tokens successor on successor.id = token.successor_id
    where token.id = ${id} and token.token = ${digest}`.compile(db),
)

/** A rotation: what it writes, and on which condition. */
export type Rotation = ReturnType<typeof rotationOf>

export function rotationOf(id: string, sessionId: string, successor: NewRefreshToken, now: Date) {
  return {
    id,
    sessionId,
    now: formatTime(now),
    successorId: successor.id,
    digest: successor.digest,
    keyId: successor.keyId,
    issuedAt: formatTime(successor.issuedAt),
    expiresAt: formatTime(successor.expiresAt),
  }
}

export function refreshTokenRow(
  userId: string,
  sessionId: string,
  token: NewRefreshToken,
): Insertable<Schema['refresh_tokens']> {
  return {
    id: token.id,
    user_id: userId,
    session_id: sessionId,
    token: token.digest,
    key_id: token.keyId,
    created_at: formatTime(token.issuedAt),
    expires_at: formatTime(token.expiresAt),
  }
}
