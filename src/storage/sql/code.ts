// One-time codes: a code is read together with the session of the page that asked for it, and redeemed once.
import { sql } from 'kysely'
import type { EndedSession } from '../../domain/attempt.ts'
import type { CodeOpening, CodeStore } from '../../domain/code.ts'
import { invalid } from '../../domain/session.ts'
import { displacedValues, endDisplaced, NO_BROWSER, toEnded } from './displaced-sessions.ts'
import { type Engine, write } from './engine.ts'
import { isLive, type SessionWithUser, sessionWithUser, toLive } from './live-session.ts'
import { lockUserById } from './login-factors.ts'
import { prepare, run, type Steps, send } from './prepared.ts'
import { formatTime, parseTime } from './schema.ts'
import { insertToken, tokenValues } from './token-rows.ts'
import { isNotLockedByAdministrator, LAST_LOGIN_COLUMNS } from './user-rows.ts'

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

    redeem: (digest, opening, now) => engine.inTransaction(() => redeem(digest, opening, now)),
  }
}

function* redeem(
  digest: string,
  { userId, session, refreshToken, maxSessions }: CodeOpening,
  moment: Date,
): Steps<EndedSession[] | null> {
  const now = formatTime(moment)
  // One of several parallel calls removes the row. The others wait for its transaction, and then find none.
  const [code] = yield* run(removeCode, { digest, now })
  if (!code) return null
  const values = {
    ...{ now, userId, sessionId: session.id, pageId: code.session_id },
    ...{ userAgent: session.userAgent, ip: session.ip },
    sessionEnd: formatTime(session.expiresAt),
    tokenEnd: formatTime(refreshToken.expiresAt),
  }
  // A change that ends all sessions of the user waits and ends the new one too, or was earlier: then the next statement
  // finds no live session.
  yield* send(lockUserById, values)
  const [opened] = yield* run(copySession, values)
  if (!opened) return null
  yield* send(insertToken, tokenValues(values, refreshToken))
  const ids = { now, userId, newId: session.id }
  const ended = yield* run(endDisplaced, displacedValues(ids, { ...NO_BROWSER, maxSessions }))
  return ended.map(toEnded)
}

const removeCode = prepare<{ digest: string; now: string }, { session_id: string }>(
  ({ digest, now }) => sql`delete from login_codes where digest = ${digest} and expires_at > ${now}
    returning session_id`,
)

type CopyParameters = Record<
  'now' | 'userId' | 'sessionId' | 'pageId' | 'userAgent' | 'ip' | 'sessionEnd' | 'tokenEnd',
  string
>

/** Takes over what the session of the page has of its user, if both are still good. */
const copySession = prepare<CopyParameters, { id: string }>(
  at => sql`insert into sessions (id, user_id, created_at, last_used_at, idle_expires_at, purge_at,
      expires_at, user_agent, ip, amr, ${LAST_LOGIN_COLUMNS})
    select ${at.sessionId}, user_id, ${at.now}, ${at.now}, ${at.tokenEnd}, ${at.tokenEnd},
      ${at.sessionEnd}, ${at.userAgent}, ${at.ip}, amr, ${LAST_LOGIN_COLUMNS}
    from sessions where id = ${at.pageId} and ${isLive(at.now)}
      and exists (select 1 from users where id = ${at.userId} and is_active
        and ${isNotLockedByAdministrator(at.now)})
    returning id`,
)

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
