// Refresh tokens: a token is read together with its session, its user and its successor. Each engine has its own
// way to replace it.
import type { RefreshTokenStore } from '../../domain/refresh-token.ts'
import type { Engine } from './engine.ts'
import { toAmr, toLive, toSessionUser } from './live-session.ts'
import { formatTime, parseTime, parseTimeOrNull } from './schema.ts'
import { findToken, rotationValues, type TokenRow } from './token-rows.ts'

export function createRefreshTokens(engine: Engine): RefreshTokenStore {
  const find: RefreshTokenStore['find'] = async (id, digest, now) => {
    const [row] = await engine.readPrepared(findToken, { id, digest, now: formatTime(now) })
    if (!row) return { kind: 'purged' }
    const live = toLive(row, now)
    if (live.kind === 'invalid') return live
    return {
      kind: 'found',
      live,
      revokedAt: parseTimeOrNull(row.token_revoked_at),
      requestDigest: row.token_request_digest,
      successor: toSuccessor(row),
    }
  }

  return {
    find,

    async use(id, digest, successor, now) {
      const row = await engine.useToken(rotationValues(id, digest, successor, now))
      if (!row) return find(id, digest, now)
      const { amr, expires_at } = row
      const session = { id: row.id, expiresAt: parseTime(expires_at), amr: toAmr(amr) }
      const hasSecondFactor = Boolean(row.has_second_factor)
      return { kind: 'replaced', session, user: toSessionUser(row), hasSecondFactor }
    },
  }
}

function toSuccessor(row: TokenRow) {
  if (row.successor_id === null) return null
  return {
    id: row.successor_id,
    keyId: row.successor_key_id,
    issuedAt: parseTime(row.successor_created_at),
    expiresAt: parseTime(row.successor_expires_at),
    isRevoked: row.successor_revoked_at !== null,
    requestDigest: row.successor_request_digest,
    clientDigest: row.successor_client_digest,
  }
}
