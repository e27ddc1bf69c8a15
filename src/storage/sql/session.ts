// Finds, lists and counts live sessions, notes the use of their cookies, and ends them.
import { type RawBuilder, sql } from 'kysely'
import { invalid, type SessionKey, type SessionStore } from '../../domain/session.ts'
import { writeAudit } from './audit.ts'
import {
  endAllSessions,
  endEverySession,
  isOfUser,
  isOtherOf,
  LOWEST_ID,
} from './end-all-sessions.ts'
import { hasMoreEnded, listEnded } from './ended-sessions.ts'
import { type Engine, transact } from './engine.ts'
import { findByCookie, findById, isLive, toLastLogin, toLive, toSession } from './live-session.ts'
import { lockForChange } from './lock-for-change.ts'
import { prepare } from './prepared.ts'
import { formatTime, parseTime, parseTimeOrNull } from './schema.ts'

export function createSessions(engine: Engine): SessionStore {
  const { db, readPrepared, writePrepared } = engine
  const liveOf = (userId: string, now: Date) =>
    db
      .selectFrom('sessions')
      .where('user_id', '=', userId)
      .where(isLive(formatTime(now)))

  const find = async (statement: typeof findById, value: string, now: Date) => {
    const [row] = await readPrepared(statement, { value, now: formatTime(now) })
    return row ? toLive(row, now) : invalid('unknown-session')
  }

  const endByKey = (key: SessionKey, now: string) => {
    switch (key.kind) {
      case 'token':
        return writePrepared(endOfUser, { ...key, now })
      case 'cookie':
        return writePrepared(endByCookie, { ...key, usedAfter: formatTime(key.usedAfter), now })
      default:
        return key satisfies never
    }
  }

  return {
    findLive: (id, now) => find(findById, id, now),
    findLiveByCookie: (cookieDigest, now) => find(findByCookie, cookieDigest, now),

    async touchCookie(id, until, usedBefore, now) {
      await writePrepared(touch, {
        id,
        until: formatTime(until),
        usedBefore: formatTime(usedBefore),
        now: formatTime(now),
      })
    },

    async listLive(userId, { afterId, limit, isLastFirst, othersOf }, now) {
      const after = afterId === null ? null : await findPosition(engine, userId, afterId)
      if (after === undefined) return null
      const [isAfter, order] = isLastFirst ? [sql`<`, 'desc' as const] : [sql`>`, 'asc' as const]
      const rows = await engine.retrying(() =>
        liveOf(userId, now)
          .selectAll()
          .$if(after !== null, query =>
            query.where(
              sql<boolean>`(created_at, id) ${isAfter} (${after?.created_at}, ${after?.id})`,
            ),
          )
          .$if(othersOf !== undefined, query => query.where('id', '<>', othersOf ?? ''))
          .orderBy('created_at', order)
          .orderBy('id', order)
          .limit(limit)
          .execute(),
      )
      return rows.map(toSession)
    },

    async listStored(userId, { afterId, limit }) {
      // Without an equality: PostgreSQL might follow the index of the ids, which has those of all users.
      const after = sql<boolean>`(user_id, id) > (${userId}, ${afterId ?? LOWEST_ID})`
      const rows = await engine.retrying(() =>
        db
          .selectFrom('sessions')
          .selectAll()
          .where(after)
          .where('user_id', '<=', userId)
          .orderBy('user_id')
          .orderBy('id')
          .limit(limit)
          .execute(),
      )
      return rows.map(row => ({
        ...toSession(row),
        endedAt: parseTimeOrNull(row.ended_at),
        lastLogin: toLastLogin(row),
      }))
    },

    async listTokens(userId, after, limit) {
      const position = after && [after.sessionId, formatTime(after.createdAt), after.id]
      const rows = await engine.retrying(() =>
        db
          .selectFrom('refresh_tokens')
          .selectAll()
          .where('user_id', '=', userId)
          .where(
            position
              ? sql<boolean>`(session_id, created_at, id) > (${sql.join(position)})`
              : sql<boolean>`true`,
          )
          .orderBy('session_id')
          .orderBy('created_at')
          .orderBy('id')
          .limit(limit)
          .execute(),
      )
      return rows.map(row => ({
        id: row.id,
        sessionId: row.session_id,
        createdAt: parseTime(row.created_at),
        expiresAt: parseTime(row.expires_at),
        revokedAt: parseTimeOrNull(row.revoked_at),
      }))
    },

    async countLive(userId, now) {
      const { sessions } = await engine.retrying(() =>
        liveOf(userId, now)
          .select(count => count.fn.countAll().as('sessions'))
          .executeTakeFirstOrThrow(),
      )
      return Number(sessions)
    },

    async findLastLogin(userId) {
      const row = await engine.retrying(() =>
        db.selectFrom('users').selectAll().where('id', '=', userId).executeTakeFirst(),
      )
      return row ? toLastLogin(row) : null
    },

    async end(id, now) {
      const [ended] = await writePrepared(endById, { id, now: formatTime(now) })
      return ended !== undefined
    },

    async endOf(key, now) {
      const [ended] = await endByKey(key, formatTime(now))
      return ended ? { id: ended.id, userId: ended.user_id } : null
    },

    endOthers: (userId, keptId, now) =>
      transact(engine, async trx => {
        // If two calls keep different sessions, the second one waits here and finds its session ended.
        await lockForChange(engine, trx, 'id', userId)
        const kept = await trx
          .selectFrom('sessions')
          .select('id')
          .where('id', '=', keptId)
          .where(isOfUser(userId))
          .where(isLive(formatTime(now)))
          .executeTakeFirst()
        if (!kept) return null
        return endAllSessions(engine, trx, isOtherOf(userId, keptId), now)
      }),

    endByAdministrator: (id, change) =>
      transact(engine, async trx => {
        const { at, seen } = change
        if (seen && !(await lockForChange(engine, trx, 'id', seen.id, seen))) return false
        const isOne = sql`id = ${id} and ${seen ? isOfUser(seen.id) : sql`true`}`
        const { rows } = await ending(isOne, formatTime(at)).execute(trx)
        const [ended] = rows
        if (!ended) return false
        await writeAudit(trx, change, {
          action: 'session.ended',
          target: id,
          targetId: ended.user_id,
        })
        return true
      }),

    endAll: (userId, change) =>
      transact(engine, async trx => {
        const user = await lockForChange(engine, trx, 'id', userId, change.seen)
        if (!user) return null
        const ended = await endAllSessions(engine, trx, isOfUser(userId), change.at)
        await writeAudit(trx, change, {
          action: 'sessions.ended',
          target: user.email,
          targetId: userId,
        })
        return ended.length
      }),

    hasMoreEnded: (known, from, before) => hasMoreEnded(engine, known, from, before),
    listEnded: (from, limit) => listEnded(engine, from, limit),
    endEvery: change => endEverySession(engine, change),
  }
}

type Ended = { id: string; user_id: string }

/** Ends the session that meets the condition, if it is live. */
const ending = (condition: RawBuilder<unknown>, now: string) =>
  sql<Ended>`update sessions set ended_at = ${now} where ${condition} and ${isLive(now)}
    returning id, user_id`

function prepareEnd<Values extends object>(conditionOf: (values: Values) => RawBuilder<unknown>) {
  return prepare<Values & { now: string }, Ended>(values => ending(conditionOf(values), values.now))
}

const endById = prepareEnd<{ id: string }>(({ id }) => sql`id = ${id}`)

const endOfUser = prepareEnd<{ sessionId: string; userId: string }>(
  ({ sessionId, userId }) => sql`id = ${sessionId} and user_id = ${userId}`,
)

const endByCookie = prepareEnd<{ digest: string; usedAfter: string }>(
  ({ digest, usedAfter }) => sql`cookie_digest = ${digest} and cookie_used_at > ${usedAfter}`,
)

type Touch = { id: string; until: string; usedBefore: string; now: string }

/** Never moves the expiry to an earlier time. */
const touch = prepare<Touch>(
  at => sql`update sessions set last_used_at = ${at.now}, cookie_used_at = ${at.now},
      idle_expires_at = case when idle_expires_at < ${at.until} then ${at.until} else idle_expires_at end
    where id = ${at.id} and ended_at is null and cookie_used_at <= ${at.usedBefore}`,
)

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
