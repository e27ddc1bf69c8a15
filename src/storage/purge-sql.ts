// Removes what no longer means anything, in small batches: each is a transaction of its own that finds
// its rows by an index, so that its length does not depend on how many rows there are.
import { setImmediate } from 'node:timers/promises'
import { type RawBuilder, sql, type Transaction } from 'kysely'
import type { Engine } from './engine.ts'
import type { Schema } from './schema.ts'
import { clearSessions, isAmong, lockRows } from './session-removal.ts'
import type { Purged, Store } from './store.ts'
import { transact } from './transact.ts'
import { toText, toTime } from './values.ts'

/** SQLite's batches are the smaller ones: they hold the event loop. */
const BATCHES = { sqlite: { rows: 50, rounds: 10 }, postgres: { rows: 500, rounds: 1 } }
/** Ended sessions stay for a day, for questions about what happened; their tokens do not. */
const ENDED_KEPT_MS = 24 * 3600_000

type Batch = { removed: Partial<Purged>; isDone: boolean; nextFrom: string | null }
type Step = (trx: Transaction<Schema>, now: Date, from: RawBuilder<unknown>) => Promise<Batch>

export function createPurge(engine: Engine): Store['purge'] {
  const { rows: maxRows, rounds } = BATCHES[engine.name]

  const expired =
    (
      table: 'login_throttle' | 'refresh_tokens' | 'devices',
      id: string,
      name: keyof Purged,
    ): Step =>
    (trx, now, from) =>
      remove(trx, name, {
        table,
        id,
        orderBy: 'expires_at',
        isOver: sql`expires_at <= ${toText(now)} and expires_at >= ${from}`,
      })

  async function remove(
    trx: Transaction<Schema>,
    name: keyof Purged,
    rows: { table: string; id: string; orderBy: string; isOver: RawBuilder<unknown> },
  ): Promise<Batch> {
    const [table, id, orderBy] = [sql.table(rows.table), sql.ref(rows.id), sql.ref(rows.orderBy)]
    const chosen = sql`select ${id} from ${table} where ${rows.isOver}
      order by ${orderBy} limit ${sql.lit(maxRows)} ${lockRows(engine, false)}`
    const removed = await sql<{ position: Date | string }>`
      delete from ${table} where ${isAmong(engine.name, rows.id, chosen)}
      returning ${orderBy} as position`.execute(trx)
    const { length } = removed.rows
    return {
      removed: { [name]: length },
      isDone: length < maxRows,
      nextFrom: latestOf(removed.rows),
    }
  }

  const cleared =
    (orderBy: 'ended_at' | 'idle_expires_at', finish: 'remove' | 'mark'): Step =>
    async (trx, now, from) => {
      const isOver =
        orderBy === 'ended_at'
          ? sql`ended_at is not null and has_tokens`
          : sql`ended_at is null and idle_expires_at <= ${toText(now)}`
      const { refreshTokens, sessions, chosen } = await clearSessions(engine, trx, {
        which: sql`${isOver} and ${sql.ref(orderBy)} >= ${from}`,
        orderBy,
        finish,
        mustWait: false,
      })
      // Those that have tokens left are chosen again.
      const isAll = sessions.length === chosen.length
      return {
        removed: { refreshTokens, ...(finish === 'remove' && { sessions: sessions.length }) },
        isDone: chosen.length === 0,
        nextFrom: isAll ? latestOf(chosen) : null,
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
          and ended_at >= ${from}`,
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
    const purged: Purged = { sessions: 0, refreshTokens: 0, devices: 0, throttleRows: 0 }
    for (const step of steps) {
      for (let round = 0, isDone = false; round < rounds && !isDone; round++) {
        const from = sql`${positions.get(step) ?? BEGINNING}`
        const batch = await transact(engine, [], async trx =>
          (await engine.isAlone(trx)) ? step(trx, now, from) : null,
        )
        // Another instance has taken over; what was removed so far is told.
        if (batch === null) return Object.values(purged).some(Boolean) ? purged : null
        for (const [name, rows] of Object.entries(batch.removed)) {
          purged[name as keyof Purged] += rows
        }
        isDone = batch.isDone
        if (isDone) positions.delete(step)
        else if (batch.nextFrom !== null) positions.set(step, batch.nextFrom)
        await setImmediate()
      }
    }
    return purged
  }
}

const BEGINNING = '0001-01-01T00:00:00.000Z'

function latestOf(rows: { position: Date | string }[]): string | null {
  const latestMs = Math.max(...rows.map(({ position }) => toTime(position).getTime()))
  return rows.length > 0 ? toText(new Date(latestMs)) : null
}
