// Sessions: opened, used, ended.
import { sql, type Transaction } from 'kysely'
import type { Engine } from './engine.ts'
import { findLive, isLive, toSession } from './live-session.ts'
import type { Schema } from './schema.ts'
import type { Store } from './store.ts'
import { transact } from './transact.ts'
import { toText } from './values.ts'

type Sessions = Pick<
  Store,
  | 'findLiveSession'
  | 'findLiveSessionByCookie'
  | 'touchCookie'
  | 'listLiveSessions'
  | 'endSession'
  | 'endSessions'
>

export function createSessions(engine: Engine): Sessions {
  const { db } = engine
  return {
    findLiveSession: (id, now) => findLive(engine, 'id', id, now),

    findLiveSessionByCookie: (cookieDigest, now) =>
      findLive(engine, 'cookie_digest', cookieDigest, now),

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

const NO_SESSION = '00000000-0000-0000-0000-000000000000'

/** Ends sessions with their tokens, expired ones as well; returns the ids of those that were live. */
export async function endSessionsIn(
  trx: Transaction<Schema>,
  which: { id: string } | { userId: string; exceptId: string | null },
  now: Date,
): Promise<string[]> {
  const moment = toText(now)
  // The ids stay in the database: a user may have more sessions than a statement takes parameters.
  const chosen = (session: string) =>
    'id' in which
      ? sql<boolean>`${sql.ref(session)} = ${which.id}`
      : sql<boolean>`user_id = ${which.userId} and ${sql.ref(session)} <> ${which.exceptId ?? NO_SESSION}`
  const ended = await trx
    .updateTable('sessions')
    .set({ ended_at: moment })
    .where('ended_at', 'is', null)
    .where(chosen('id'))
    .returning(['id', sql`idle_expires_at > ${moment} and expires_at > ${moment}`.as('was_live')])
    .execute()
  await trx
    .updateTable('refresh_tokens')
    .set({ revoked_at: moment })
    .where('revoked_at', 'is', null)
    .where(chosen('session_id'))
    .execute()
  return ended.filter(({ was_live }) => was_live).map(({ id }) => id)
}
