// The purge: removes expired rows in small batches. Each batch is a transaction that finds its rows by an
// index, so that its duration does not depend on the size of the tables.
import { setImmediate } from 'node:timers/promises'
import { type RawBuilder, sql } from 'kysely'
import { ENDED_LISTED_SECONDS } from '../../domain/lifetimes.ts'
import {
  addRemoved,
  type MaintenanceStore,
  NONE_REMOVED,
  type Removed,
} from '../../domain/maintenance.ts'
import { isAmong, lockClause } from './dialect.ts'
import { type Engine, transact } from './engine.ts'
import { lostUsers, oldEvents } from './purge-audit.ts'
import type { Position, Step } from './purge-step.ts'
import { chooseSessions, clearSessions } from './remove-sessions.ts'
import { formatTime, parseTime, type Schema } from './schema.ts'

/** SQLite has smaller batches and more of them, because other operations wait for each one. */
const BATCHES = { sqlite: { rows: 50, rounds: 10 }, postgres: { rows: 500, rounds: 1 } }
/** Ended sessions are kept for a day so that an operator can look into them; their tokens are not kept. */
const ENDED_KEPT_MS = 24 * 3600_000

/** The rows of a table whose time in the column `orderBy` was `keptMs` ago or earlier. */
type DueRows = {
  table: keyof Schema
  id?: string
  orderBy?: string
  keptMs?: number
  condition?: RawBuilder<unknown>
  /** Under which name they are reported; not at all without one. */
  counted?: keyof Removed
}

export function createPurge(engine: Engine): MaintenanceStore['purge'] {
  const { rows: maxRows, rounds } = BATCHES[engine.name]

  const remove =
    ({ table, id = 'id', orderBy = 'expires_at', keptMs = 0, condition, counted }: DueRows): Step =>
    async (trx, now, from) => {
      const [target, order] = [sql.table(table), sql.ref(orderBy)]
      const chosen = sql`select ${sql.ref(id)} from ${target}
        where ${order} <= ${formatTime(now, -keptMs)} and ${condition ?? sql`true`}
          and ${isFrom(orderBy, id, from)}
        order by ${order} limit ${sql.lit(maxRows)} ${lockClause(engine, false)}`
      const { rows } = await sql<{ position: Date | string }>`
        delete from ${target} where ${isAmong(engine.name, id, chosen)}
        returning ${order} as position`.execute(trx)
      return {
        removed: counted ? { [counted]: rows.length } : {},
        isDone: rows.length < maxRows,
        last: latestOf(rows),
      }
    }

  const endedSessions: Step = async (trx, _now, from) => {
    const chosen = await chooseSessions(engine, trx, {
      condition: sql`ended_at is not null and has_tokens and ${isFrom('ended_at', 'id', from)}`,
      orderBy: 'ended_at',
      mustWait: false,
    })
    const { refreshTokens, sessions } = await clearSessions(engine, trx, chosen, 'mark')
    return {
      removed: { refreshTokens },
      isDone: chosen.length === 0,
      // Sessions with tokens left must be chosen again, so the position stays.
      last: sessions === chosen.length ? latestOf(chosen) : null,
    }
  }

  const expiredSessions: Step = async (trx, now, from) => {
    const chosen = await chooseSessions(engine, trx, {
      condition: sql`ended_at is null and purge_at <= ${formatTime(now)} and ${isFrom('purge_at', 'id', from)}`,
      orderBy: 'purge_at',
      mustWait: false,
    })
    const { expired = [], used = [] } = Object.groupBy(chosen, row =>
      parseTime(row.idle_expires_at) <= now ? 'expired' : 'used',
    )
    if (used.length > 0) {
      const ids = sql.join(used.map(({ id }) => id))
      await sql`update sessions set purge_at = idle_expires_at where id in (${ids})`.execute(trx)
    }
    const { refreshTokens, sessions } = await clearSessions(engine, trx, expired, 'remove')
    return {
      removed: { refreshTokens, sessions },
      isDone: chosen.length === 0,
      // With an id, because sessions from before purge_at existed share one value of it.
      last: sessions === expired.length ? latestOf(chosen, chosen.at(-1)?.id) : null,
    }
  }

  const steps: Step[] = [
    remove({ table: 'login_throttle', id: 'key', counted: 'throttleRows' }),
    remove({ table: 'refresh_tokens', counted: 'refreshTokens' }),
    remove({ table: 'login_codes', id: 'digest', counted: 'codes' }),
    endedSessions,
    remove({
      table: 'sessions',
      orderBy: 'ended_at',
      keptMs: ENDED_KEPT_MS,
      condition: sql`not has_tokens`,
      counted: 'sessions',
    }),
    expiredSessions,
    remove({ table: 'devices', counted: 'devices' }),
    oldEvents(maxRows),
    lostUsers(engine),
    // These are not counted: the sessions themselves were removed with their user.
    remove({ table: 'ended_sessions', orderBy: 'ended_at', keptMs: ENDED_LISTED_SECONDS * 1000 }),
  ]
  /**
   * Where each step continues. PostgreSQL keeps removed rows in its indexes until a vacuum, and a step that
   * started at the beginning each time would read all of them.
   */
  const positions = new Map<Step, Position>()

  return async (now, auditDays = 0) => {
    const purged = { ...NONE_REMOVED }
    let isAllDone = true
    for (const step of steps) {
      for (let round = 0, isDone = false; round < rounds && !isDone; round++) {
        const from = positions.get(step) ?? null
        const batch = await transact(engine, async trx =>
          (await engine.mayPurge(trx)) ? step(trx, now, from, auditDays) : null,
        )
        // Another instance purges now; report the rows that this one has removed.
        if (batch === null) {
          return Object.values(purged).some(Boolean) ? { ...purged, isDone: false } : null
        }
        addRemoved(purged, batch.removed)
        isDone = batch.isDone
        if (isDone && !batch.isLastKept) positions.delete(step)
        else if (batch.last !== null) positions.set(step, batch.last)
        if (round === rounds - 1) isAllDone &&= isDone
        await setImmediate()
      }
    }
    await engine.emptyWriteAheadLog()
    return { ...purged, isDone: isAllDone }
  }
}

/**
 * True for rows from this position on. Compares pairs of columns, because PostgreSQL expects few rows between
 * two bounds of one column and would sort all of them.
 */
export function isFrom(orderBy: string, id: string, from: Position | null) {
  if (from === null) return sql`true`
  const fromId = from.id ?? (id === 'id' ? LOWEST_ID : '')
  return sql`(${sql.ref(orderBy)}, ${sql.ref(id)}) >= (${from.at}, ${fromId})`
}

const LOWEST_ID = '00000000-0000-0000-0000-000000000000'

function latestOf(rows: { position: Date | string }[], id?: string): Position | null {
  const latestMs = Math.max(...rows.map(({ position }) => parseTime(position).getTime()))
  return rows.length > 0 ? { at: formatTime(new Date(latestMs)), ...(id && { id }) } : null
}
