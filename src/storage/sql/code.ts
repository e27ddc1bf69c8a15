// One-time codes: a code is read together with the session of the page that asked for it, and redeemed once.
import { CompiledQuery, sql } from 'kysely'
import type { CodeStore, FoundCode } from '../../domain/code.ts'
import { isLockedByAdministrator } from '../../domain/user.ts'
import { endSurplusInPostgres, endSurplusInSqlite, surplusValues } from './displaced-sessions.ts'
import { type Engine, transact, write } from './engine.ts'
import { isLive, type SessionWithUser, sessionWithUser, toLive } from './live-session.ts'
import { lockForChange } from './lock-for-change.ts'
import { prepare } from './prepared.ts'
import { refreshTokenRow } from './refresh-token.ts'
import { formatTime, parseTime, parseTimeOrNull } from './schema.ts'

export function createCodes(engine: Engine): CodeStore {
  const endSurplus = engine.name === 'postgres' ? endSurplusInPostgres : endSurplusInSqlite
  return {
    async insert(digest, sessionId, { callback, challenge, expiresAt }) {
      const expires_at = formatTime(expiresAt)
      const row = { digest, session_id: sessionId, callback, challenge, expires_at }
      await write(engine, db => db.insertInto('login_codes').values(row).execute())
    },

    async find(digest, now) {
      const [row] = await engine.readPrepared(findCode, { digest, now: formatTime(now) })
      return toFound(row, now)
    },

    redeem: (digest, { userId, session, refreshToken, maxSessions }, now) =>
      transact(engine, async trx => {
        const moment = formatTime(now)
        // Of parallel calls one removes the row. The others wait for its transaction, and then find none.
        const code = await trx
          .deleteFrom('login_codes')
          .where('digest', '=', digest)
          .where('expires_at', '>', moment)
          .returning('session_id')
          .executeTakeFirst()
        if (!code) return null
        // A change that ends all sessions of the user either sees the new session, or is seen by the next statement.
        const user = await lockForChange(engine, trx, userId)
        if (!user?.isActive || isLockedByAdministrator(user, now)) return null
        const page = await trx
          .selectFrom('sessions')
          .selectAll()
          .where('id', '=', code.session_id)
          .where(isLive(moment))
          .executeTakeFirst()
        if (!page) return null
        const lastLoginAt = parseTimeOrNull(page.last_login_at)
        const firstEnd = formatTime(refreshToken.expiresAt)
        await trx
          .insertInto('sessions')
          .values({
            id: session.id,
            user_id: userId,
            created_at: moment,
            last_used_at: moment,
            idle_expires_at: firstEnd,
            purge_at: firstEnd,
            expires_at: formatTime(session.expiresAt),
            user_agent: session.userAgent,
            ip: session.ip,
            generation: page.generation,
            last_login_at: lastLoginAt && formatTime(lastLoginAt),
            last_login_ip: page.last_login_ip,
            last_login_user_agent: page.last_login_user_agent,
            failures_since_login: page.failures_since_login,
          })
          .execute()
        const token = refreshTokenRow(userId, session.id, refreshToken)
        await trx.insertInto('refresh_tokens').values(token).execute()
        const surplus = endSurplus(engine.db, surplusValues(now, userId, session.id, maxSessions))
        const { rows } = await trx.executeQuery<{ id: string }>(
          CompiledQuery.raw(surplus.sql, surplus.parameters),
        )
        return rows.map(({ id }) => ({ id, userId, reason: 'limit' }))
      }),
  }
}

type CodeRow = SessionWithUser & {
  callback: string
  challenge: string
  code_expires_at: Date | string
}

const findCode = prepare<{ digest: string; now: string }, CodeRow>((db, { digest, now }) =>
  sql<CodeRow>`select ${sessionWithUser(now)}, code.callback, code.challenge,
      code.expires_at as code_expires_at
    from login_codes code
    join sessions on sessions.id = code.session_id
    join users on users.id = sessions.user_id
    where code.digest = ${digest}`.compile(db),
)

function toFound(row: CodeRow | undefined, now: Date): FoundCode {
  if (!row) return { kind: 'invalid', reason: 'unknown-code' }
  const live = toLive(row, now)
  if (live.kind === 'invalid') return live
  const { callback, challenge } = row
  return { kind: 'found', live, callback, challenge, expiresAt: parseTime(row.code_expires_at) }
}
