// "database migrate" with every fault of every statement: each migration is applied or not, and the next run ends with
// the tables of an undisturbed one.
import { rm } from 'node:fs/promises'
import { test } from 'node:test'
import { createMigrator } from '../../src/storage/migrations/migrations.ts'
import { openPostgres } from '../../src/storage/postgres/engine.ts'
import type { EngineName } from '../../src/storage/sql/engine.ts'
import { openSqlite } from '../../src/storage/sqlite/engine.ts'
import { copyDatabase, createTestDatabase, type TestDatabase } from '../engines.ts'
import { makeTemporaryFolder } from '../temporary-folder.ts'
import { createCommands, type Ended, findWrongRepetition, judgeCommands } from './commands.ts'
import { createFaults, injectIntoDrivers } from './faults.ts'
import { findBroken } from './invariants.ts'
import { type KeptDatabase, keepConnection } from './kept-connection.ts'
import { IS_FULL, type Judge, type Operation, proveAll } from './loop.ts'

/** The last migration of the release in test/upgrade/previous-release.tar.gz. */
const LAST_OF_PREVIOUS = '0007-last-login'
const TIMEOUT_MS = 60_000
const USER_ID = '00000000-0000-4000-8000-00000000000a'

/** Everything that migrations make, and the names of those that were applied. */
const TABLES: Record<EngineName, string> = {
  sqlite: `select name, sql as text from sqlite_schema
    union all select name, 'applied' from kysely_migration`,
  postgres: `
    select table_name || '.' || column_name as name, concat(data_type, is_nullable, column_default) as text
      from information_schema.columns where table_schema = 'public'
    union all select indexname, indexdef from pg_indexes where schemaname = 'public'
    union all select conname, pg_get_constraintdef(oid) from pg_constraint
      where connamespace = 'public'::regnamespace
    union all select tgname, pg_get_triggerdef(oid) from pg_trigger where not tgisinternal
    union all select proname, prosrc from pg_proc where pronamespace = 'public'::regnamespace
    union all select name, 'applied' from kysely_migration`,
}

export const MIGRATE_TITLES = {
  previous: 'database migrate from the tables of the previous release',
  empty: 'database migrate of an empty database',
}

export function proveMigrate(engine: EngineName): void {
  test(`every statement of every migration on ${engine}`, async t => {
    const faults = createFaults()
    const folder = await makeTemporaryFolder('login-migrate-')
    const previous = await createPrevious(engine)
    /** `expected`: what an undisturbed migration makes of it. */
    let current: { database: KeptDatabase; expected: string } | null = null
    const restore = injectIntoDrivers(faults)
    t.after(async () => {
      restore()
      await current?.database.drop()
      await previous.drop()
      await rm(folder, { recursive: true })
    })

    async function newDatabase(from: keyof typeof MIGRATE_TITLES) {
      const isEmpty = from === 'empty'
      const made = await (isEmpty ? createTestDatabase(engine) : copyDatabase(previous))
      const database = await keepConnection(made)
      const { run } = createCommands(database, folder)
      return { database, run: () => run(['database', 'migrate']) }
    }

    const migrating = (from: keyof typeof MIGRATE_TITLES): Operation<Ended> => {
      let expected = ''
      return {
        title: MIGRATE_TITLES[from],
        // Each migration has a transaction of its own.
        isInParts: true,
        async prepare() {
          if (expected === '') {
            const undisturbed = await newDatabase(from)
            await undisturbed.run()
            expected = await describeTables(engine, undisturbed.database)
            await undisturbed.database.drop()
          }
          await current?.database.drop()
          const { database, run } = await newDatabase(from)
          current = { database, expected }
          return {
            email: null,
            run,
            isDone: async () => (await describeTables(engine, database)) === expected,
          }
        },
      }
    }
    const judge: Judge<Ended> = {
      ...judgeCommands({ rows: async () => [] }),
      async findProblems({ run }) {
        const problems = await findWrongRepetition(run)
        if (!current || problems.length > 0) return problems
        const { database, expected } = current
        const isAsExpected = (await describeTables(engine, database)) === expected
        return [
          ...(isAsExpected ? [] : ['the tables differ from those of an undisturbed migration']),
          ...(await findBroken(database, new Date())),
        ]
      },
    }
    // Each case takes as long as ten of a command. A lost answer is an error that may come too late.
    const operations = [migrating('previous'), ...(IS_FULL ? [migrating('empty')] : [])]
    await proveAll(t, `migrations on ${engine}, statements`, operations, {
      faults,
      judge,
      unit: 'statement',
      engine,
      ...(IS_FULL ? {} : { kinds: ['lost'] }),
    })
  })
}

/** An empty text if the tables are not there yet. */
async function describeTables(engine: EngineName, { rows }: TestDatabase): Promise<string> {
  try {
    const tables = await rows(`select * from (${TABLES[engine]}) made order by name, text`)
    const users = await rows('select email, password_hash, role from users')
    const events = await rows('select action, target from audit_events')
    return JSON.stringify([tables, users, events])
  } catch {
    return ''
  }
}

/** The tables of the previous release, with a user. */
async function createPrevious(engine: EngineName): Promise<TestDatabase> {
  const database = await createTestDatabase(engine)
  const { config } = database
  const limits = { onConnectionLost: () => {}, operationTimeoutMs: TIMEOUT_MS }
  const opened =
    config.engine === 'sqlite'
      ? openSqlite(config.file, TIMEOUT_MS)
      : openPostgres({ ...config, ...limits })
  await opened.migrating(
    ({ transact }) =>
      transact(async trx => {
        const { error } = await createMigrator(engine, trx).migrateTo(LAST_OF_PREVIOUS)
        if (error) throw error
      }),
    () => {},
  )
  await opened.close()
  await database.rows(`insert into users (id, email, password_hash, name)
    values ('${USER_ID}', 'kim@example.com', 'a hash', 'Kim')`)
  await database.rows(`insert into audit_events (at, actor_kind, actor, host, action, target, target_id)
    values ('2030-01-31T12:00:00.000Z', 'user', 'root', 'login1', 'user.added', 'kim@example.com', '${USER_ID}')`)
  return database
}
