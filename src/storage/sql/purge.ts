// Removes what no longer means anything, in small batches: each is a transaction of its own that finds
// its rows by an index, so that its length does not depend on how many rows there are.
import { setImmediate } from 'node:timers/promises'
import { type RawBuilder, sql, type Transaction } from 'kysely'
import type { MaintenanceStore, Purged } from '../../domain/store.ts'
import type { Engine } from './engine.ts'
import type { Schema } from './schema.ts'
import { clearSessions, isAmong, lockRows } from './session-removal.ts'
import { transact } from './transact.ts'
import { toText, toTime } from './values.ts'

/** SQLite's batches are the smaller ones: they hold the event loop. */
const BATCHES = { sqlite: { rows: 50, rounds: 10 }, postgres: { rows: 500, rounds: 1 } }
/** Ended sessions stay for a day, for questions about what happened; their tokens do not. */
const ENDED_KEPT_MS = 24 * 3600_000

/** `from` is the moment of the last row that the step has dealt with, null at the start. */
type Step = (trx: Transaction<Schema>, now: Date, from: string | null) => Promise<Batch>
type Removed = Omit<Purged, 'isDone'>
type Batch = { removed: Partial<Removed>; isDone: boolean; last: string | null }

export function createPurge(engine: Engine): MaintenanceStore['purge'] {
  const { rows: maxRows, rounds } = BATCHES[engine.name]

  const expired =
    (
      table: 'login_throttle' | 'refresh_tokens' | 'devices',
      id: string,
      name: keyof Removed,
    ): Step =>
    (trx, now, from) =>
      remove(trx, name, {
        table,
        id,
        orderBy: 'expires_at',
        isOver: sql`expires_at <= ${toText(now)} and ${isFrom('expires_at', id, from)}`,
      })

  async function remove(
    trx: Transaction<Schema>,
    name: keyof Removed,
    rows: { table: string; id: string; orderBy: string; isOver: RawBuilder<unknown> },
  ): Promise<Batch> {
    const [table, id, orderBy] = [sql.table(rows.table), sql.ref(rows.id), sql.ref(rows.orderBy)]
    const chosen = sql`select ${id} from ${table} where ${rows.isOver}
      order by ${orderBy} limit ${sql.lit(maxRows)} ${lockRows(engine, false)}`
    const removed = await sql<{ position: Date | string }>`
      delete from ${table} where ${isAmong(engine.name, rows.id, chosen)}
      returning ${orderBy} as position`.execute(trx)
    const { length } = removed.rows
    return { removed: { [name]: length }, isDone: length < maxRows, last: latestOf(removed.rows) }
  }

  const cleared =
    (orderBy: 'ended_at' | 'idle_expires_at', finish: 'remove' | 'mark'): Step =>
    async (trx, now, from) => {
      const isOver =
        orderBy === 'ended_at'
          ? sql`ended_at is not null and has_tokens`
          : sql`ended_at is null and idle_expires_at <= ${toText(now)}`
      const { refreshTokens, sessions, chosen } = await clearSessions(engine, trx, {
        which: sql`${isOver} and ${isFrom(orderBy, 'id', from)}`,
        orderBy,
        finish,
        mustWait: false,
      })
      // Those that have tokens left are chosen again.
      const isAll = sessions.length === chosen.length
      return {
        removed: { refreshTokens, ...(finish === 'remove' && { sessions: sessions.length }) },
        isDone: chosen.length === 0,
        last: isAll ? latestOf(chosen) : null,
      }
    }

  const steps: Step[] = [
    expired('login_throttle', 'key', 'throttleRows'),
    expired('refresh_tokens', 'id', 'refreshTokens'),
    cleared('ended_at', 'mark'),
    (trx, now, from) =>
      remove(trx, 'sessions', {
        table: 'sessions',
        id: 'id',
        orderBy: 'ended_at',
        isOver: sql`ended_at <= ${toText(now, -ENDED_KEPT_MS)} and not has_tokens
          and ${isFrom('ended_at', 'id', from)}`,
      }),
    cleared('idle_expires_at', 'remove'),
    expired('devices', 'id', 'devices'),
  ]
  /**
   * Where each step goes on. PostgreSQL keeps removed rows in its indexes until a vacuum; a step that
   * began at the start each time would walk past all of them.
   */
  const positions = new Map<Step, string>()

  return async now => {
    const purged: Removed = { sessions: 0, refreshTokens: 0, devices: 0, throttleRows: 0 }
    let isAllDone = true
    for (const step of steps) {
      for (let round = 0, isDone = false; round < rounds && !isDone; round++) {
        const from = positions.get(step) ?? null
        const batch = await transact(engine, async trx =>
          (await engine.isAlone(trx)) ? step(trx, now, from) : null,
        )
        // Another instance has taken over; what was removed so far is told.
        if (batch === null) {
          return Object.values(purged).some(Boolean) ? { ...purged, isDone: false } : null
        }
        for (const [name, rows] of Object.entries(batch.removed)) {
          purged[name as keyof Removed] += rows
        }
        isDone = batch.isDone
        if (isDone) positions.delete(step)
        else if (batch.last !== null) positions.set(step, batch.last)
        if (round === rounds - 1) isAllDone &&= isDone
        await setImmediate()
      }
    }
    return { ...purged, isDone: isAllDone }
  }
}

/**
 * From this moment on. As a comparison of rows, because PostgreSQL takes two bounds of one column for a
 * narrow range, which it would sort as a whole.
 */
function isFrom(orderBy: string, id: string, from: string | null) {
  if (from === null) return sql`true`
  return sql`(${sql.ref(orderBy)}, ${sql.ref(id)}) >= (${from}, ${id === 'id' ? LOWEST_ID : ''})`
}

const LOWEST_ID = '00000000-0000-0000-0000-000000000000'

function latestOf(rows: { position: Date | string }[]): string | null {
  const latestMs = Math.max(...rows.map(({ position }) => toTime(position).getTime()))
  return rows.length > 0 ? toText(new Date(latestMs)) : null
}
