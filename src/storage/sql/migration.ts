// Applies the migrations one after the other, each in a transaction of its own, and lists them.
import { type Kysely, sql } from 'kysely'
import {
  type MigrationStore,
  NewerTables,
  type OnMigrationProgress,
} from '../../domain/migration.ts'
import { createMigrator, FIRST_BESIDE_OTHERS } from '../migrations/migrations.ts'
import type { Engine, Migrating } from './engine.ts'
import type { Schema } from './schema.ts'

const REPORT_EVERY_MS = 10_000

export function createMigrations(engine: Engine): MigrationStore {
  return {
    apply: (onProgress = () => {}) =>
      engine.migrating(migrating => applyAll(engine, migrating, onProgress), onProgress),

    async list() {
      const migrations = await engine.retrying(() => listAll(engine, engine.db))
      return migrations.map(({ name, executedAt }) => ({ name, appliedAt: executedAt ?? null }))
    },
  }
}

async function applyAll(
  engine: Engine,
  { transact, claimTables }: Migrating,
  onProgress: OnMigrationProgress,
): Promise<string[]> {
  const applied: string[] = []
  let isEmpty = false
  for (;;) {
    const name = await transact(async trx => {
      const all = await listAll(engine, trx)
      const next = all.find(({ executedAt }) => !executedAt)
      if (!next) return null
      isEmpty ||= all.every(({ executedAt }) => !executedAt)
      await claimTables(trx, !isEmpty && next.name < FIRST_BESIDE_OTHERS)
      const apply = async () => {
        const { error } = await createMigrator(engine.name, trx).migrateUp()
        if (error) throw error
      }
      await (isEmpty ? apply() : reporting(next.name, onProgress, apply))
      return next.name
    })
    if (name === null) return applied
    applied.push(name)
  }
}

async function reporting(
  migration: string,
  onProgress: OnMigrationProgress,
  apply: () => Promise<void>,
): Promise<void> {
  const startedMs = performance.now()
  const report = () => {
    const seconds = Math.round((performance.now() - startedMs) / 1000)
    onProgress({ kind: 'applying', migration, seconds })
  }
  report()
  const timer = setInterval(report, REPORT_EVERY_MS)
  try {
    await apply()
  } finally {
    clearInterval(timer)
  }
}

/** Throws if a newer version has applied migrations that this one does not know. */
async function listAll(engine: Engine, db: Kysely<Schema>) {
  const known = await createMigrator(engine.name, db).getMigrations()
  // Until the first migration there is no table of migrations.
  if (known.some(({ executedAt }) => executedAt)) {
    const names = known.map(({ name }) => name)
    const { rows } = await sql<{ name: string }>`select name from kysely_migration
      where name not in (${sql.join(names)}) order by name`.execute(db)
    if (rows.length > 0) throw new NewerTables(rows.map(({ name }) => name))
  }
  return known
}
