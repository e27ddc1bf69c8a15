// Refresh tokens: a token is read together with its session, its user and its successor. Each engine has its own
// way to replace it.
import { type Insertable, sql } from 'kysely'
import type { FoundRefreshToken, NewRefreshToken, SessionStore } from '../../domain/session.ts'
import type { Engine } from './engine.ts'
import { type SessionWithUser, sessionWithUser, toLive } from './live-session.ts'
import { prepare } from './prepared.ts'
import { formatTime, parseTime, parseTimeOrNull, type Schema } from './schema.ts'

type RefreshTokens = Pick<SessionStore, 'findRefreshToken' | 'useRefreshToken'>

export function createRefreshTokens(engine: Engine): RefreshTokens {
  return {
    async findRefreshToken(id, digest, now) {
      const [row] = await engine.readPrepared(findToken, { id, digest, now: formatTime(now) })
      return toFound(row, now)
    },

    async useRefreshToken(id, digest, successor, now) {
      const used = await engine.useToken({
        id,
        digest,
        now: formatTime(now),
        successorId: successor.id,
        successorDigest: successor.digest,
        keyId: successor.keyId,
        issuedAt: formatTime(successor.issuedAt),
        expiresAt: formatTime(successor.expiresAt),
      })
      const found = toFound(used?.row, now)
      return found.kind === 'found' && used?.isReplaced
        ? { ...found.live, kind: 'replaced' }
        : found
    },
  }
}

function toFound(row: TokenRow | undefined, now: Date): FoundRefreshToken {
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
}

/** What the replacement of a token writes, and on which token. */
export type Rotation = {
  id: string
  digest: string
  now: string
  successorId: string
  successorDigest: string
  keyId: string
  issuedAt: string
  expiresAt: string
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
export type TokenRow = SessionWithUser & { token_revoked_at: StoredTime | null } & SuccessorRow

/** The columns of `TokenRow`, from `TOKEN_WITH_SESSION`. */
export function tokenColumns(now: string) {
  return sql`${sessionWithUser(now)}, token.revoked_at as token_revoked_at,
    successor.id as successor_id, successor.key_id as successor_key_id,
    successor.created_at as successor_created_at, successor.expires_at as successor_expires_at,
    successor.revoked_at as successor_revoked_at`
}

export const TOKEN_WITH_SESSION = sql`refresh_tokens token
  join sessions on sessions.id = token.session_id
  join users on users.id = sessions.user_id
  left join refresh_tokens successor on successor.id = token.successor_id`

type Find = Pick<Rotation, 'id' | 'digest' | 'now'>

export const findToken = prepare<Find, TokenRow>((db, { id, digest, now }) =>
  sql<TokenRow>`select ${tokenColumns(now)} from ${TOKEN_WITH_SESSION}
    where token.id = ${id} and token.token = ${digest}`.compile(db),
)

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
