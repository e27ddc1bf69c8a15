// The purge of the audit: removes old events, and forgets users that no longer exist.
import { sql, type Transaction } from 'kysely'
import type { Engine } from './engine.ts'
import { forgetLostUsers } from './forget-user.ts'
import type { Step } from './purge-step.ts'
import { formatTime, parseTime, type Schema } from './schema.ts'

const DAY_MS = 24 * 3_600_000
/**
 * How many events one batch looks at. Their order is that of the ids, because no index has their times: so many events
 * that a wrong clock has dated ahead do not keep the purge from those behind them.
 */
const WINDOW = 1_000

export function oldEvents(maxRows: number): Step {
  return async (trx, now, from, auditDays) => {
    if (auditDays === 0) return { removed: {}, isDone: true, last: null }
    const before = new Date(now.getTime() - auditDays * DAY_MS)
    const seen = await trx
      .selectFrom('audit_events')
      .select(['id', 'at'])
      .where(sql<boolean>`id > ${Number(from?.at ?? 0)}`)
      .orderBy('id')
      .limit(sql.lit(WINDOW))
      .execute()
    const due = seen.filter(({ at }) => parseTime(at) < before).slice(0, maxRows)
    if (due.length > 0) await remove(trx, before, due)
    const isCut = due.length === maxRows
    const last = (isCut ? due : seen).at(-1)
    return {
      removed: { auditEvents: due.length },
      isDone: due.length === 0 || (!isCut && seen.length < WINDOW),
      last: last ? { at: String(last.id) } : null,
    }
  }
}

/** The triggers allow it only while `audit_purge` has the moment. */
async function remove(
  trx: Transaction<Schema>,
  before: Date,
  events: { id: number | string }[],
): Promise<void> {
  const allowBefore = (moment: string | null) =>
    trx.updateTable('audit_purge').set({ removes_before: moment }).execute()
  await allowBefore(formatTime(before))
  const ids = events.map(({ id }) => Number(id))
  await sql`delete from audit_events where id in (${sql.join(ids)})`.execute(trx)
  await allowBefore(null)
}

/** Each process looks at all events once, and then at new ones. */
export function lostUsers(engine: Engine): Step {
  return async (trx, _now, from) => {
    const lastId = await forgetLostUsers(engine, trx, Number(from?.at ?? 0))
    const isDone = lastId === null
    return { removed: {}, isDone, last: isDone ? from : { at: String(lastId) }, isLastKept: true }
  }
}
