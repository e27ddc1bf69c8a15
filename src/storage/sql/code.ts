// One-time codes: a code is read together with the session of the page that asked for it, and redeemed once.
import { CompiledQuery, sql } from 'kysely'
import type { CodeStore } from '../../domain/code.ts'
import { invalid } from '../../domain/session.ts'
import { isLockedByAdministrator } from '../../domain/user.ts'
import { endOverLimit, limitValues, toOverLimit } from './displaced-sessions.ts'
import { type Engine, transact, write } from './engine.ts'
import { isLive, type SessionWithUser, sessionWithUser, toLive } from './live-session.ts'
import { lockForChange } from './lock-for-change.ts'
import { prepare } from './prepared.ts'
import { formatTime, parseTime } from './schema.ts'
import { LAST_LOGIN_COLUMNS } from './user-rows.ts'

export function createCodes(engine: Engine): CodeStore {
  return {
    async insert(digest, sessionId, { callback, challenge, expiresAt }) {
      const expires_at = formatTime(expiresAt)
      const row = { digest, session_id: sessionId, callback, challenge, expires_at }
      await write(engine, db => db.insertInto('login_codes').values(row).execute())
    },

    async find(digest, now) {
      const [row] = await engine.readPrepared(findCode, { digest, now: formatTime(now) })
      if (!row) return invalid('unknown-code')
      const live = toLive(row, now)
      if (live.kind === 'invalid') return live
      const { callback, challenge } = row
      return { kind: 'found', live, callback, challenge, expiresAt: parseTime(row.code_expires_at) }
    },

    redeem: (digest, { userId, session, refreshToken, maxSessions }, now) =>
      transact(engine, async trx => {
        const moment = formatTime(now)
        // One of several parallel calls removes the row. The others wait for its transaction, and then find none.
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
        const firstEnd = formatTime(refreshToken.expiresAt)
        // Takes over what the session of the page has of its user, if that session is still live.
        const opened = await sql`insert into sessions (id, user_id, created_at, last_used_at,
            idle_expires_at, purge_at, expires_at, user_agent, ip, ${LAST_LOGIN_COLUMNS})
          select ${session.id}, user_id, ${moment}, ${moment}, ${firstEnd}, ${firstEnd},
            ${formatTime(session.expiresAt)}, ${session.userAgent}, ${session.ip}, ${LAST_LOGIN_COLUMNS}
          from sessions where id = ${code.session_id} and ${isLive(moment)}
          returning id`.execute(trx)
        if (opened.rows.length === 0) return null
        const token = {
          ...{ id: refreshToken.id, user_id: userId, session_id: session.id },
          ...{ token: refreshToken.digest, key_id: refreshToken.keyId },
          ...{ created_at: formatTime(refreshToken.issuedAt), expires_at: firstEnd },
        }
        await trx.insertInto('refresh_tokens').values(token).execute()
        const limit = endOverLimit(engine.db, limitValues(now, userId, session.id, maxSessions))
        const { rows } = await trx.executeQuery<{ id: string }>(
          CompiledQuery.raw(limit.sql, limit.parameters),
        )
        return toOverLimit(rows, userId)
      }),
  }
}

type CodeRow = SessionWithUser & {
  callback: string
  challenge: string
  code_expires_at: Date | string
}

const findCode = prepare<{ digest: string; now: string }, CodeRow>(
  ({ digest, now }) => sql`select ${sessionWithUser(now)}, code.callback, code.challenge,
      code.expires_at as code_expires_at
    from login_codes code
    join sessions on sessions.id = code.session_id
    join users on users.id = sessions.user_id
    where code.digest = ${digest}`,
)
