// Refresh tokens. A rotation, like the end of a session, locks the session's row before its tokens, so that
// the two happen one after the other.
import type { Insertable } from 'kysely'
import type { NewRefreshToken, SessionStore } from '../../domain/session.ts'
import { type Engine, transact } from './engine.ts'
import { findLive, isLive } from './live-session.ts'
import { formatTime, parseTime, parseTimeOrNull, type Schema } from './schema.ts'

type RefreshTokens = Pick<SessionStore, 'findRefreshToken' | 'rotateRefreshToken'>

export function createRefreshTokens(engine: Engine): RefreshTokens {
  const { db } = engine
  return {
    async findRefreshToken(id, digest, now) {
      const token = await engine.retrying(() =>
        db
          .selectFrom('refresh_tokens')
          .selectAll()
          .where('id', '=', id)
          .where('token', '=', digest)
          .executeTakeFirst(),
      )
      if (!token) return { kind: 'invalid', reason: 'unknown-token' }
      const live = await findLive(engine, 'id', token.session_id, now)
      if (live.kind === 'invalid') return live
      const successor =
        token.successor_id === null
          ? undefined
          : await engine.retrying(() =>
              db
                .selectFrom('refresh_tokens')
                .selectAll()
                .where('id', '=', token.successor_id)
                .executeTakeFirst(),
            )
      return {
        kind: 'found',
        live,
        revokedAt: parseTimeOrNull(token.revoked_at),
        successor: successor
          ? {
              id: successor.id,
              digest: successor.token,
              keyId: successor.key_id,
              issuedAt: parseTime(successor.created_at),
              expiresAt: parseTime(successor.expires_at),
              isRevoked: successor.revoked_at !== null,
            }
          : null,
      }
    },

    rotateRefreshToken(id, sessionId, successor, now) {
      return transact(engine, async trx => {
        const session = await trx
          .selectFrom('sessions')
          .select('user_id')
          .where('id', '=', sessionId)
          .where(isLive(formatTime(now)))
          .$if(engine.name === 'postgres', query => query.forNoKeyUpdate())
          .executeTakeFirst()
        const rotated =
          session &&
          (await trx
            .updateTable('refresh_tokens')
            .set({ revoked_at: formatTime(now), successor_id: successor.id })
            .where('id', '=', id)
            .where('revoked_at', 'is', null)
            .returning('id')
            .executeTakeFirst())
        if (!session || !rotated) return false
        await trx
          .updateTable('sessions')
          .set({ last_used_at: formatTime(now), idle_expires_at: formatTime(successor.expiresAt) })
          .where('id', '=', sessionId)
          .execute()
        await trx
          .insertInto('refresh_tokens')
          .values(refreshTokenRow(session.user_id, sessionId, successor))
          .execute()
        return true
      })
    },
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
