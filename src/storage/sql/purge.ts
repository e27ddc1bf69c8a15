// The purge: removes expired rows in small batches. Each batch is a transaction that finds its rows by an
// index, so that its duration does not depend on the size of the tables.
import { setImmediate } from 'node:timers/promises'
import { type RawBuilder, sql, type Transaction } from 'kysely'
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
import type { Batch, Position, Step } from './purge-step.ts'
import { chooseSessions, clearSessions } from './remove-sessions.ts'
import { formatTime, parseTime, type Schema } from './schema.ts'

/** SQLite has smaller batches and more of them, because other operations wait for each one. */
const BATCHES = { sqlite: { rows: 50, rounds: 10 }, postgres: { rows: 500, rounds: 1 } }
/** Ended sessions are kept for a day so that an operator can look into them; their tokens are not kept. */
const ENDED_KEPT_MS = 24 * 3600_000

export function createPurge(engine: Engine): MaintenanceStore['purge'] {
  const { rows: maxRows, rounds } = BATCHES[engine.name]

  const expired =
    (
      table: 'login_throttle' | 'refresh_tokens' | 'login_codes' | 'devices',
      id: string,
      name: keyof Removed,
    ): Step =>
    (trx, now, from) =>
      remove(trx, name, {
        table,
        id,
        orderBy: 'expires_at',
        isDue: sql`expires_at <= ${formatTime(now)} and ${isFrom('expires_at', id, from)}`,
      })

  async function remove(
    trx: Transaction<Schema>,
    name: keyof Removed,
    rows: { table: string; id: string; orderBy: string; isDue: RawBuilder<unknown> },
  ): Promise<Batch> {
    const [table, id, orderBy] = [sql.table(rows.table), sql.ref(rows.id), sql.ref(rows.orderBy)]
    const chosen = sql`select ${id} from ${table} where ${rows.isDue}
      order by ${orderBy} limit ${sql.lit(maxRows)} ${lockClause(engine, false)}`
    const removed = await sql<{ position: Date | string }>`
      delete from ${table} where ${isAmong(engine.name, rows.id, chosen)}
      returning ${orderBy} as position`.execute(trx)
    const { length } = removed.rows
    return { removed: { [name]: length }, isDone: length < maxRows, last: latestOf(removed.rows) }
  }

  const endedSessions: Step = async (trx, _now, from) => {
    const chosen = await chooseSessions(engine, trx, {
      condition: sql`ended_at is not null and has_tokens and ${isFrom('ended_at', 'id', from)}`,
      orderBy: 'ended_at',
      mustWait: false,
    })
    const { refreshTokens, sessions } = await clearSessions(engine, trx, idsOf(chosen), 'mark')
    const areAllFinished = sessions.length === chosen.length
    return {
      removed: { refreshTokens },
      isDone: chosen.length === 0,
      last: positionAfter(chosen, areAllFinished),
    }
  }

  const expiredSessions: Step = async (trx, now, from) => {
    const chosen = await chooseSessions(engine, trx, {
      condition: sql`ended_at is null and purge_at <= ${formatTime(now)} and ${isFrom('purge_at', 'id', from)}`,
      orderBy: 'purge_at',
      mustWait: false,
    })
    const [expired, used] = partition(chosen, row => parseTime(row.idle_expires_at) <= now)
    if (used.length > 0) {
      await trx
        .updateTable('sessions')
        .set({ purge_at: sql`idle_expires_at` })
        .where('id', 'in', idsOf(used))
        .execute()
    }
    const { refreshTokens, sessions } = await clearSessions(engine, trx, idsOf(expired), 'remove')
    const areAllFinished = sessions.length === expired.length
    return {
      removed: { refreshTokens, sessions: sessions.length },
      isDone: chosen.length === 0,
      // Sessions from before purge_at existed share one value of it.
      last: positionAfter(chosen, areAllFinished, chosen.at(-1)?.id),
    }
  }

  const steps: Step[] = [
    expired('login_throttle', 'key', 'throttleRows'),
    expired('refresh_tokens', 'id', 'refreshTokens'),
    expired('login_codes', 'digest', 'codes'),
    endedSessions,
    (trx, now, from) =>
      remove(trx, 'sessions', {
        table: 'sessions',
        id: 'id',
        orderBy: 'ended_at',
        isDue: sql`ended_at <= ${formatTime(now, -ENDED_KEPT_MS)} and not has_tokens
          and ${isFrom('ended_at', 'id', from)}`,
      }),
    expiredSessions,
    expired('devices', 'id', 'devices'),
    oldEvents(maxRows),
    lostUsers(engine),
    async (trx, now, from) => {
      const batch = await remove(trx, 'sessions', {
        table: 'ended_sessions',
        id: 'id',
        orderBy: 'ended_at',
        isDue: sql`ended_at <= ${formatTime(now, -ENDED_LISTED_SECONDS * 1000)}
          and ${isFrom('ended_at', 'id', from)}`,
      })
      // The sessions themselves were removed with their user.
      return { ...batch, removed: {} }
    },
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

/** Sessions with tokens left must be chosen again, so the position stays. */
function positionAfter(
  chosen: { position: Date | string }[],
  areAllFinished: boolean,
  id?: string,
): Position | null {
  const latest = areAllFinished ? latestOf(chosen) : null
  return latest && id ? { ...latest, id } : latest
}

function idsOf(rows: { id: string }[]): string[] {
  return rows.map(({ id }) => id)
}

function partition<T>(items: T[], belongs: (item: T) => boolean): [T[], T[]] {
  return [items.filter(belongs), items.filter(item => !belongs(item))]
}

function latestOf(rows: { position: Date | string }[]): Position | null {
  const latestMs = Math.max(...rows.map(({ position }) => parseTime(position).getTime()))
  return rows.length > 0 ? { at: formatTime(new Date(latestMs)) } : null
}
