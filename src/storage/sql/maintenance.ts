// Maintenance: the check that the database accepts a write, and the purge. The purge removes expired rows in small
// batches. Each batch is a transaction that finds its rows by an index, so that its duration does not depend on the
// size of the tables.
import { setImmediate } from 'node:timers/promises'
import { type RawBuilder, sql, type Transaction } from 'kysely'
import { TOKEN_LISTED_DAYS } from '../../domain/admin-token.ts'
import {
  DAY_MS,
  DEVICE_IDLE_SECONDS,
  ENDED_LISTED_SECONDS,
  REPLACED_KEPT_SECONDS,
} from '../../domain/lifetimes.ts'
import { type MaintenanceStore, NONE_REMOVED, type Removed } from '../../domain/maintenance.ts'
import { isAmong } from './dialect.ts'
import { type Engine, transact, write } from './engine.ts'
import { formatTime, type Schema } from './schema.ts'

export function createMaintenance(engine: Engine): MaintenanceStore {
  return {
    ...engine.maintenance,
    purge: createPurge(engine),

    async checkWritable(now) {
      await write(engine, db =>
        db
          .updateTable('service')
          .set({ checked_at: formatTime(now) })
          .execute(),
      )
    },
  }
}

/** SQLite has smaller batches and more of them, because other operations wait for each one. */
const BATCHES = { sqlite: { rows: 50, rounds: 10 }, postgres: { rows: 500, rounds: 1 } }

/** The rows of a table whose time in the indexed column `orderBy` was `keptMs` ago or earlier. */
type DueRows = {
  table: keyof Schema
  id?: string
  orderBy?: string
  keptMs?: number
  condition?: RawBuilder<unknown>
  /** What to do with them instead of a deletion. */
  update?: RawBuilder<unknown>
  /** Under which name they are reported; not at all without one. */
  counted?: keyof Removed
  /** Waits until none of these rows is due. */
  after?: keyof Schema
}

function dueRows(now: Date, auditDays: number): DueRows[] {
  const endListedMs = ENDED_LISTED_SECONDS * 1000
  /** Its replaced tokens are due before it, so that its deletion does not cascade to many rows. */
  const replacedMs = REPLACED_KEPT_SECONDS * 1000
  const isExpired = sql`idle_expires_at <= ${formatTime(now, -replacedMs)}`
  return [
    { table: 'login_throttle', id: 'key', counted: 'throttleRows' },
    {
      table: 'refresh_tokens',
      orderBy: 'revoked_at',
      keptMs: replacedMs,
      counted: 'refreshTokens',
    },
    { table: 'refresh_tokens', condition: sql`revoked_at is null`, counted: 'refreshTokens' },
    { table: 'login_codes', id: 'digest', counted: 'codes' },
    {
      table: 'sessions',
      orderBy: 'purge_at',
      keptMs: replacedMs,
      condition: sql`ended_at is null and not ${isExpired}`,
      update: sql`purge_at = idle_expires_at`,
    },
    {
      table: 'sessions',
      orderBy: 'purge_at',
      keptMs: replacedMs,
      condition: sql`ended_at is null and ${isExpired}`,
      counted: 'sessions',
      after: 'refresh_tokens',
    },
    {
      table: 'sessions',
      orderBy: 'ended_at',
      keptMs: endListedMs,
      counted: 'sessions',
      after: 'refresh_tokens',
    },
    { table: 'devices', counted: 'devices' },
    {
      table: 'users',
      orderBy: 'last_login_at',
      keptMs: DEVICE_IDLE_SECONDS * 1000,
      condition: sql`last_login_ip is not null`,
      update: sql`last_login_ip = null, last_login_user_agent = null`,
    },
    // These are not counted: the sessions themselves were removed with their user, and of tokens there are few.
    { table: 'ended_sessions', orderBy: 'ended_at', keptMs: endListedMs },
    { table: 'admin_tokens', id: 'name', keptMs: TOKEN_LISTED_DAYS * DAY_MS },
    ...(auditDays > 0
      ? [
          {
            table: 'audit_events',
            orderBy: 'at',
            keptMs: auditDays * DAY_MS,
            counted: 'auditEvents',
          } as const,
        ]
      : []),
  ]
}

function createPurge(engine: Engine): MaintenanceStore['purge'] {
  const { rows: maxRows, rounds } = BATCHES[engine.name]
  const lock = engine.name === 'postgres' ? sql`for update skip locked` : sql``

  async function removeBatch(trx: Transaction<Schema>, due: DueRows, now: Date): Promise<number> {
    const { table, id = 'id', orderBy = 'expires_at', keptMs = 0, condition, update } = due
    const [target, order] = [sql.table(table), sql.ref(orderBy)]
    const chosen = sql`select ${sql.ref(id)} from ${target}
      where ${order} <= ${formatTime(now, -keptMs)} and ${condition ?? sql`true`}
      order by ${order} limit ${sql.lit(maxRows)} ${lock}`
    const change = update ? sql`update ${target} set ${update}` : sql`delete from ${target}`
    const { numAffectedRows } =
      await sql`${change} where ${isAmong(engine.name, id, chosen)}`.execute(trx)
    return Number(numAffectedRows)
  }

  return async (now, auditDays = 0) => {
    const purged = { ...NONE_REMOVED }
    const unfinished = new Set<keyof Schema>()
    for (const due of dueRows(now, auditDays)) {
      if (due.after && unfinished.has(due.after)) continue
      let removed = maxRows
      for (let round = 0; round < rounds && removed === maxRows; round++) {
        const batch = await transact(engine, async trx =>
          (await engine.mayPurge(trx)) ? removeBatch(trx, due, now) : null,
        )
        // Another instance purges now; report the rows that this one has removed.
        if (batch === null) {
          return Object.values(purged).some(Boolean) ? { ...purged, isDone: false } : null
        }
        removed = batch
        if (due.counted) purged[due.counted] += removed
        await setImmediate()
      }
      if (removed === maxRows) unfinished.add(due.table)
    }
    const isDone = unfinished.size === 0
    if (isDone) await engine.emptyWriteAheadLog()
    return { ...purged, isDone }
  }
}
