// What keeps the database in order: migrations, sweeping, and whether it takes a write at all.
import { type Kysely, type RawBuilder, sql } from 'kysely'
import { Migrator } from 'kysely/migration'
import type { Engine } from './engine.ts'
import { migrationsFor } from './migrations/migrations.ts'
import type { Schema } from './schema.ts'
import type { Store } from './store.ts'
import { transact } from './transact.ts'
import { toText } from './values.ts'

const PURGE_ROWS = 500
/** Ended sessions stay for a day, for whoever asks what happened. */
const ENDED_KEPT_MS = 24 * 3600_000

type PurgedTable = 'login_throttle' | 'refresh_tokens' | 'sessions' | 'devices'

type Upkeep = Pick<Store, 'purge' | 'checkWritable' | 'readClock' | 'migrate' | 'listMigrations'>

export function createUpkeep(engine: Engine): Upkeep {
  const { db } = engine
  return {
    purge(now) {
      return transact(engine, [], async trx => {
        if (!(await engine.isAlone(trx))) return null
        const moment = toText(now)
        // Only what nobody holds: a purge never waits, so it is never in the way.
        const removed = async (table: PurgedTable, id: string, isOver: RawBuilder<unknown>) => {
          const lock = engine.name === 'postgres' ? sql`for update skip locked` : sql``
          const result = await sql`delete from ${sql.table(table)} where ${sql.ref(id)} in (
            select ${sql.ref(id)} from ${sql.table(table)} where ${isOver}
            order by ${sql.ref(id)} limit ${sql.lit(PURGE_ROWS)} ${lock})`.execute(trx)
          return Number(result.numAffectedRows ?? 0)
        }
        const isExpired = sql`expires_at <= ${moment}`
        return {
          throttleRows: await removed('login_throttle', 'key', isExpired),
          refreshTokens: await removed('refresh_tokens', 'id', isExpired),
          sessions: await removed(
            'sessions',
            'id',
            sql`ended_at <= ${toText(now, -ENDED_KEPT_MS)} or idle_expires_at <= ${moment}`,
          ),
          devices: await removed('devices', 'id', isExpired),
        }
      })
    },

    async checkWritable(now) {
      const checked = { checked_at: toText(now) }
      await transact(engine, [], trx =>
        trx
          .insertInto('readiness')
          .values({ id: 1, ...checked })
          .onConflict(conflict => conflict.column('id').doUpdateSet(checked))
          .execute(),
      )
    },

    readClock: engine.readClock,

    async migrate() {
      return engine.migrating(async db => {
        const { error, results } = await migratorOf(engine, db).migrateToLatest()
        if (error) throw error
        return results?.map(result => result.migrationName) ?? []
      })
    },

    async listMigrations() {
      const migrations = await engine.retrying(() => migratorOf(engine, db).getMigrations())
      return migrations.map(({ name, executedAt }) => ({ name, appliedAt: executedAt ?? null }))
    },
  }
}

function migratorOf({ name }: Engine, db: Kysely<Schema>): Migrator {
  return new Migrator({ db, provider: { getMigrations: async () => migrationsFor(name) } })
}
