// Many sessions of one user, inserted without the store: the result of years or of a faulty program.
import type { TestDatabase } from './engines.ts'

const DAY_MS = 24 * 3_600_000
const weekAfter = (login: Date) => new Date(login.getTime() + 7 * DAY_MS)

/**
 * Opens sessions of a user, with refresh tokens that no client has: the first one `now`, each other one a millisecond
 * before. They end at `idleEnd` if they are not used.
 */
export async function fillSessions(
  { config, rows }: TestDatabase,
  userId: string,
  sessions: number,
  now: Date,
  { tokensEach = 1, idleEnd = weekAfter(now), endedAt = null as Date | null } = {},
): Promise<void> {
  const end = new Date(now.getTime() + 30 * DAY_MS)
  const isSqlite = config.engine === 'sqlite'
  const time = (moment: Date | null) => {
    const text = moment === null ? 'null' : `'${moment.toISOString()}'`
    return isSqlite ? text : `${text}::timestamptz`
  }
  const opened = isSqlite
    ? `strftime('%Y-%m-%dT%H:%M:%fZ', '${now.toISOString()}', ((1 - i) / 1000.0) || ' seconds')`
    : `${time(now)} + (1 - i) * interval '1 millisecond'`
  const hex = (value: string, digits: number) =>
    isSqlite
      ? `printf('%0${digits}x', ${value})`
      : `lpad(to_hex((${value})::bigint), ${digits}, '0')`
  const group = crypto.randomUUID().slice(24)
  // Spread over the index like random ids.
  const uuid = (n: string, kind: string) =>
    `(${hex(`(${n}) * 2654435761 % 4294967296`, 8)} || '-${kind}-4000-8000-${group}')${isSqlite ? '' : '::uuid'}`
  const series = (count: number) =>
    `with recursive n(i) as (select 1 union all select i + 1 from n where i < ${count})`
  const owner = isSqlite ? `'${userId}'` : `'${userId}'::uuid`
  await rows(`insert into sessions (id, user_id, created_at, last_used_at, idle_expires_at, expires_at,
      ended_at, user_agent, ip) ${series(sessions)}
    select ${uuid('i', '0001')}, ${owner}, ${opened}, ${time(now)}, ${time(idleEnd)}, ${time(end)},
      ${time(endedAt)}, 'Mozilla/5.0', '192.0.2.1' from n`)
  if (tokensEach === 0) return
  await rows(`insert into refresh_tokens (id, user_id, session_id, token, key_id, created_at, expires_at)
    ${series(sessions * tokensEach)}
    select ${uuid('i', '0002')}, ${owner}, ${uuid(`(i - 1) / ${tokensEach} + 1`, '0001')},
      '${group} ' || i, 'k', ${time(now)}, ${time(idleEnd)} from n`)
}
