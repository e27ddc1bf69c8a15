// Rows of refresh tokens: how one is found with its session, its user and its successor.
import { sql } from 'kysely'
import type {
  CallerDigests,
  NewRefreshToken,
  RefreshTokenStore,
} from '../../domain/refresh-token.ts'
import { type SessionWithUser, sessionWithUser, type UserColumns } from './live-session.ts'
import { prepare } from './prepared.ts'
import { formatTime } from './schema.ts'

/** What the replacement of a token writes, and on which token. */
export function rotationValues(
  ...[id, digest, successor, now]: Parameters<RefreshTokenStore['use']>
) {
  return {
    id,
    digest,
    now: formatTime(now),
    successorId: successor.id,
    successorDigest: successor.digest,
    keyId: successor.keyId,
    issuedAt: formatTime(successor.issuedAt),
    expiresAt: formatTime(successor.expiresAt),
    requestDigest: successor.requestDigest,
    clientDigest: successor.clientDigest,
  }
}
export type Rotation = ReturnType<typeof rotationValues>

type StoredTime = Date | string
type SuccessorRow =
  | { successor_id: null }
  | {
      successor_id: string
      successor_key_id: string
      successor_created_at: StoredTime
      successor_expires_at: StoredTime
      successor_revoked_at: StoredTime | null
      successor_request_digest: string | null
      successor_client_digest: string | null
    }
export type TokenRow = SessionWithUser & {
  token_revoked_at: StoredTime | null
  token_request_digest: string | null
} & SuccessorRow

type Find = Pick<Rotation, 'id' | 'digest' | 'now'>

export const findToken = prepare<Find, TokenRow>(
  ({ id, digest, now }) => sql`select ${sessionWithUser(now)}, token.revoked_at as token_revoked_at,
      token.request_digest as token_request_digest,
      successor.id as successor_id, successor.key_id as successor_key_id,
      successor.created_at as successor_created_at, successor.expires_at as successor_expires_at,
      successor.revoked_at as successor_revoked_at,
      successor.request_digest as successor_request_digest,
      successor.client_digest as successor_client_digest
    from refresh_tokens token
    join sessions on sessions.id = token.session_id
    join users on users.id = sessions.user_id
    left join refresh_tokens successor on successor.id = token.successor_id
    where token.id = ${id} and token.token = ${digest}`,
)

/** The session and the user of a token that was replaced. */
export type ReplacedRow = UserColumns & { id: string; expires_at: StoredTime; amr: string }

/** What `insertToken` stores of the first token of a session. */
export function tokenValues(
  { userId, sessionId }: { userId: string; sessionId: string },
  { id, digest, keyId, issuedAt, expiresAt }: NewRefreshToken,
) {
  return {
    ...{ id, userId, sessionId, digest, keyId },
    ...{ issuedAt: formatTime(issuedAt), expiresAt: formatTime(expiresAt) },
    ...NO_CALLER,
  }
}

const NO_CALLER: CallerDigests = { requestDigest: null, clientDigest: null }

export const insertToken = prepare<ReturnType<typeof tokenValues>>(
  at => sql`insert into refresh_tokens (id, user_id, session_id, token, key_id, created_at, expires_at,
      request_digest, client_digest)
    values (${at.id}, ${at.userId}, ${at.sessionId}, ${at.digest}, ${at.keyId}, ${at.issuedAt},
      ${at.expiresAt}, ${at.requestDigest}, ${at.clientDigest})`,
)
