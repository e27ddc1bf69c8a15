// Sessions and their refresh tokens. A change locks the session's row first, then its tokens: what
// happens to one session happens in one order.
import { type Kysely, type Selectable, sql, type Transaction } from 'kysely'
import type { Engine } from './engine.ts'
import type { Schema } from './schema.ts'
import type { LiveSession, NewRefreshToken, NewSession, Session, Store } from './store.ts'
import { isNotLockedByAdministrator } from './throttle-rows.ts'
import { transact } from './transact.ts'
import { toUser } from './users-rows.ts'
import { toText, toTime, toTimeOrNull } from './values.ts'

type Sessions = Pick<
  Store,
  | 'findRefreshToken'
  | 'rotateRefreshToken'
  | 'findLiveSession'
  | 'findLiveSessionByCookie'
  | 'touchCookie'
  | 'listLiveSessions'
  | 'endSession'
  | 'endSessions'
>

export function createSessions(engine: Engine): Sessions {
  const { db } = engine

  async function findLive(
    column: 'id' | 'cookie_digest',
    value: string,
    now: Date,
  ): Promise<LiveSession | null> {
    const { session, user } = await engine.retrying(async () => {
      const session = await db
        .selectFrom('sessions')
        .selectAll()
        .where(column, '=', value)
        .where(isLive(now))
        .executeTakeFirst()
      const user =
        session &&
        (await db
          .selectFrom('users')
          .selectAll()
          .where('id', '=', session.user_id)
          .where(sql<boolean>`is_active`)
          .where(isNotLockedByAdministrator(toText(now)))
          .executeTakeFirst())
      return { session, user }
    })
    if (!session || !user) return null
    return {
      session: toSession(session),
      user: toUser(user),
      cookieUsedAt: toTimeOrNull(session.cookie_used_at),
    }
  }

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
      const live = token && (await findLive('id', token.session_id, now))
      if (!token || !live) return null
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
        live,
        revokedAt: toTimeOrNull(token.revoked_at),
        successor: successor
          ? {
              id: successor.id,
              digest: successor.token,
              keyId: successor.key_id,
              issuedAt: toTime(successor.created_at),
              expiresAt: toTime(successor.expires_at),
              isRevoked: successor.revoked_at !== null,
            }
          : null,
      }
    },

    rotateRefreshToken(id, sessionId, successor, now) {
      return transact(engine, [], async trx => {
        const session = await trx
          .selectFrom('sessions')
          .select('user_id')
          .where('id', '=', sessionId)
          .where(isLive(now))
          .$if(engine.name === 'postgres', query => query.forNoKeyUpdate())
          .executeTakeFirst()
        const rotated =
          session &&
          (await trx
            .updateTable('refresh_tokens')
            .set({ revoked_at: toText(now), successor_id: successor.id })
            .where('id', '=', id)
            .where('revoked_at', 'is', null)
            .returning('id')
            .executeTakeFirst())
        if (!session || !rotated) return false
        await trx
          .updateTable('sessions')
          .set({ last_used_at: toText(now), idle_expires_at: toText(successor.expiresAt) })
          .where('id', '=', sessionId)
          .execute()
        await insertRefreshToken(trx, session.user_id, sessionId, successor)
        return true
      })
    },

    findLiveSession: (id, now) => findLive('id', id, now),

    findLiveSessionByCookie: (cookieDigest, now) => findLive('cookie_digest', cookieDigest, now),

    async touchCookie(sessionId, until, now) {
      const idleEnd = toText(until)
      await transact(engine, [], trx =>
        trx
          .updateTable('sessions')
          .set({
            last_used_at: toText(now),
            cookie_used_at: toText(now),
            idle_expires_at: sql`case when idle_expires_at < ${idleEnd} then ${idleEnd} else idle_expires_at end`,
          })
          .where('id', '=', sessionId)
          .where('ended_at', 'is', null)
          .execute(),
      )
    },

    async listLiveSessions(userId, now) {
      const rows = await engine.retrying(() =>
        db
          .selectFrom('sessions')
          .selectAll()
          .where('user_id', '=', userId)
          .where(isLive(now))
          .orderBy('created_at')
          .orderBy('id')
          .execute(),
      )
      return rows.map(toSession)
    },

    async endSession(id, now) {
      const ended = await transact(engine, [], trx => endSessionsIn(trx, { id }, now))
      return ended.length > 0
    },

    endSessions: (userId, exceptId, now) =>
      transact(engine, [], trx => endSessionsIn(trx, { userId, exceptId }, now)),
  }
}

function isLive(now: Date) {
  const moment = toText(now)
  return sql<boolean>`(ended_at is null and idle_expires_at > ${moment} and expires_at > ${moment})`
}

/** Ends sessions with their tokens, expired ones as well; returns the ids of those that were live. */
export async function endSessionsIn(
  trx: Transaction<Schema>,
  which: { id: string } | { userId: string; exceptId: string | null },
  now: Date,
): Promise<string[]> {
  const ending = trx
    .updateTable('sessions')
    .set({ ended_at: toText(now) })
    .where('ended_at', 'is', null)
  const chosen =
    'id' in which
      ? ending.where('id', '=', which.id)
      : ending
          .where('user_id', '=', which.userId)
          .$if(which.exceptId !== null, query => query.where('id', '<>', which.exceptId ?? ''))
  const moment = toText(now)
  const ended = await chosen
    .returning(['id', sql`idle_expires_at > ${moment} and expires_at > ${moment}`.as('was_live')])
    .execute()
  if (ended.length === 0) return []
  const ids = ended.map(({ id }) => id)
  await trx
    .updateTable('refresh_tokens')
    .set({ revoked_at: moment })
    .where('session_id', 'in', ids)
    .where('revoked_at', 'is', null)
    .execute()
  return ended.filter(({ was_live }) => was_live).map(({ id }) => id)
}

export async function insertSession(
  trx: Transaction<Schema>,
  session: NewSession,
  refreshToken: NewRefreshToken,
): Promise<void> {
  const createdAt = toText(session.createdAt)
  await trx
    .insertInto('sessions')
    .values({
      id: session.id,
      user_id: session.userId,
      created_at: createdAt,
      last_used_at: createdAt,
      idle_expires_at: toText(refreshToken.expiresAt),
      expires_at: toText(session.expiresAt),
      cookie_digest: session.cookieDigest,
      cookie_used_at: session.cookieDigest === null ? null : createdAt,
      user_agent: session.userAgent,
      ip: session.ip,
    })
    .execute()
  await insertRefreshToken(trx, session.userId, session.id, refreshToken)
}

async function insertRefreshToken(
  trx: Kysely<Schema>,
  userId: string,
  sessionId: string,
  token: NewRefreshToken,
): Promise<void> {
  await trx
    .insertInto('refresh_tokens')
    .values({
      id: token.id,
      user_id: userId,
      session_id: sessionId,
      token: token.digest,
      key_id: token.keyId,
      created_at: toText(token.issuedAt),
      expires_at: toText(token.expiresAt),
    })
    .execute()
}

function toSession(row: Selectable<Schema['sessions']>): Session {
  return {
    id: row.id,
    userId: row.user_id,
    createdAt: toTime(row.created_at),
    lastUsedAt: toTime(row.last_used_at),
    expiresAt: toTime(row.expires_at),
    userAgent: row.user_agent,
    ip: row.ip,
  }
}
