// Sessions: found, used, listed, and ended one at a time.
import { sql } from 'kysely'
import type { SessionStore } from '../../domain/session.ts'
import type { Engine } from './engine.ts'
import { findLive, isLive, toSession } from './live-session.ts'
import { endSessions } from './session-ends.ts'
import { write } from './transact.ts'
import { toText } from './values.ts'

type Sessions = Omit<SessionStore, 'findRefreshToken' | 'rotateRefreshToken'>

export function createSessions(engine: Engine): Sessions {
  const { db } = engine
  const liveOf = (userId: string, now: Date) =>
    db
      .selectFrom('sessions')
      .where('user_id', '=', userId)
      .where(isLive(toText(now), sql`${userId}`))

  return {
    findLiveSession: (id, now) => findLive(engine, 'id', id, now),

    findLiveSessionByCookie: (cookieDigest, now) =>
      findLive(engine, 'cookie_digest', cookieDigest, now),

    async touchCookie(sessionId, until, now) {
      const idleEnd = toText(until)
      await write(engine, db =>
        db
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
          .set({ ended_at: toText(now) })
          .where('id', '=', id)
          .where(isLive(toText(now)))
          .returning('id')
          .executeTakeFirst(),
      )
      return ended !== undefined
    },

    endSessions: (userId, keptId, now, onEnded) =>
      endSessions(engine, userId, keptId, now, onEnded),
  }
}

/** Where a session stands in the order, live or not; as text, for a Date would round it. */
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
