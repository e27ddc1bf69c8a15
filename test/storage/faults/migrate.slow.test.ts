// "database migrate" with every fault of every statement: each migration is applied or not, and the next run ends with
// the tables of an undisturbed one.
import { after, test } from 'node:test'
import type { EngineName } from '../../../src/storage/sql/engine.ts'
import { type KeptDatabase, keepConnection } from '../../operation/kept-connection.ts'
import { createTestDatabase, ENGINES, type TestDatabase } from '../../support/engines.ts'
import { ownFolder } from '../../support/own.ts'
import { IS_FULL } from '../../support/proof.ts'
import { createRun, type Ended, findWrongRepetition, judgeCommands } from './commands.ts'
import { createFaults, injectIntoDrivers } from './faults.ts'
import { findBroken } from './invariants.ts'
import { type Judge, proveAll } from './loop.ts'

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

/** An empty text if the tables are not there yet. */
async function describeTables({ rows, config }: TestDatabase): Promise<string> {
  const made = `select * from (${TABLES[config.engine]}) made order by name, text`
  return rows(made).then(JSON.stringify, () => '')
}

for (const engine of ENGINES) {
  test(`every statement of every migration on ${engine}`, async t => {
    const faults = createFaults()
    const folder = await ownFolder()
    let database: KeptDatabase | null = null
    after(injectIntoDrivers(faults))
    after(() => database?.drop())

    async function newDatabase() {
      await database?.drop()
      const made = await keepConnection(await createTestDatabase(engine))
      database = made
      const run = createRun(made, folder)
      return { run: () => run(['database', 'migrate']), describe: () => describeTables(made) }
    }
    const undisturbed = await newDatabase()
    await undisturbed.run()
    const expected = await undisturbed.describe()

    async function migrating() {
      const { run, describe } = await newDatabase()
      // Each migration has a transaction of its own.
      return { run, isInParts: true, isDone: async () => (await describe()) === expected }
    }
    const judge: Judge<Ended> = {
      ...judgeCommands({ rows: async () => [] }),
      async findProblems({ run }) {
        const problems = await findWrongRepetition(run)
        if (!database || problems.length > 0) return problems
        const isAsExpected = (await describeTables(database)) === expected
        return [
          ...(isAsExpected ? [] : ['the tables differ from those of an undisturbed migration']),
          ...(await findBroken(database, new Date())),
        ]
      },
    }
    // Each case takes as long as ten of a command. A lost answer is an error that may come too late.
    const operations = { 'database migrate of an empty database': migrating }
    await proveAll(t, `migrations on ${engine}, statements`, operations, {
      ...{ faults, judge, engine, unit: 'statement' },
      ...(IS_FULL ? {} : { kinds: ['lost'] }),
    })
  })
}
