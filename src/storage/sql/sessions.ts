// Finds, lists and counts live sessions, notes the use of their cookies, and ends one session.
import { sql } from 'kysely'
import type { SessionStore } from '../../domain/session.ts'
import { endSessions } from './end-all-sessions.ts'
import { type Engine, write } from './engine.ts'
import { findLive, isLive, toSession } from './live-session.ts'
import { formatTime } from './schema.ts'

type Sessions = Omit<SessionStore, 'findRefreshToken' | 'rotateRefreshToken'>

export function createSessions(engine: Engine): Sessions {
  const { db } = engine
  const liveOf = (userId: string, now: Date) =>
    db
      .selectFrom('sessions')
      .where('user_id', '=', userId)
      .where(isLive(formatTime(now), sql`${userId}`))

  return {
    findLiveSession: (id, now) => findLive(engine, 'id', id, now),

    findLiveSessionByCookie: (cookieDigest, now) =>
      findLive(engine, 'cookie_digest', cookieDigest, now),

    async touchCookie(sessionId, until, now) {
      const idleEnd = formatTime(until)
      await write(engine, db =>
        db
          .updateTable('sessions')
          .set({
            last_used_at: formatTime(now),
            cookie_used_at: formatTime(now),
            // Never moves the expiry to an earlier time.
            idle_expires_at: sql`case when idle_expires_at < ${idleEnd} then ${idleEnd}
              else idle_expires_at end`,
          })
          .where('id', '=', sessionId)
          .where('ended_at', 'is', null)
          .execute(),
      )
    },

    async listLiveSessions(userId, { afterId, limit }, now) {
      const after = afterId === null ? null : await findPosition(engine, userId, afterId)
      if (after === undefined) return null
      const rows = await engine.retrying(() =>
        liveOf(userId, now)
          .selectAll()
          .$if(after !== null, query =>
            query.where(sql<boolean>`(created_at, id) > (${after?.created_at}, ${after?.id})`),
          )
          .orderBy('created_at')
          .orderBy('id')
          .limit(limit)
          .execute(),
      )
      return rows.map(toSession)
    },

    async countLiveSessions(userId, now) {
      const { sessions } = await engine.retrying(() =>
        liveOf(userId, now)
          .select(count => count.fn.countAll().as('sessions'))
          .executeTakeFirstOrThrow(),
      )
      return Number(sessions)
    },

    async endSession(id, now) {
      const ended = await write(engine, db =>
        db
          .updateTable('sessions')
          .set({ ended_at: formatTime(now) })
          .where('id', '=', id)
          .where(isLive(formatTime(now)))
          .returning('id')
          .executeTakeFirst(),
      )
      return ended !== undefined
    },

    endSessions: (userId, keptId, now, onEnded) =>
      endSessions(engine, userId, keptId, now, onEnded),
  }
}

/** The list position of a session, live or not. As text: a Date would round PostgreSQL's microseconds. */
function findPosition(engine: Engine, userId: string, id: string) {
  return engine.retrying(() =>
    engine.db
      .selectFrom('sessions')
      .select(['id', sql<string>`cast(created_at as text)`.as('created_at')])
      .where('id', '=', id)
      .where('user_id', '=', userId)
      .executeTakeFirst(),
  )
}
