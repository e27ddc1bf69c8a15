// An empty database for a test, on either engine, removed after the test.
import { randomBytes } from 'node:crypto'
import { copyFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { after } from 'node:test'
import pg from 'pg'
import type { DatabaseConfig } from '../../src/config/database.ts'
import type { Store } from '../../src/domain/store.ts'
import { openStore } from '../../src/storage/open-store.ts'
import type { EngineName } from '../../src/storage/sql/engine.ts'
import { makeTemporaryFolder } from './temporary-folder.ts'

/** Mutation testing runs the suites of one engine only, where the mutant concerns no other. */
const ONLY = (['sqlite', 'postgres'] as const).filter(name => name === process.env.TEST_ENGINE)

export const ENGINES: EngineName[] = ONLY.length > 0 ? ONLY : ['sqlite', 'postgres']

/**
 * For suites that take long or hardly depend on the engine: SQLite in `npm test`, PostgreSQL in
 * `npm run test:slow`.
 */
export const ENGINES_BY_RUN = (
  ONLY.length > 0 ? ONLY : process.env.TEST_LONG ? ['postgres'] : ['sqlite']
) as [EngineName, ...EngineName[]]

const TEMPLATE_FILE = 'login.db'
const OPERATION_TIMEOUT_MS = 60_000

export type Row = Record<string, unknown>

export type TestDatabase = {
  config: DatabaseConfig
  /** Runs one statement without the store. */
  rows: (statement: string) => Promise<Row[]>
  drop: () => Promise<void>
}

/** On PostgreSQL: on the given server, by default that of the test command. */
export async function createTestDatabase(
  engine: EngineName,
  server = process.env.TEST_DATABASE_URL,
): Promise<TestDatabase> {
  return engine === 'sqlite' ? createSqlite() : createPostgres(server)
}

/**
 * With all tables. On the server of the test command, and on SQLite, it is a copy of the command's template, because
 * migrating takes a third of the start of a service.
 */
export async function createMigratedDatabase(
  engine: EngineName,
  server?: string,
): Promise<TestDatabase> {
  const { TEST_TEMPLATES: folder, TEST_TEMPLATE_DATABASE: template } = process.env
  if (!folder || server) {
    const database = await createTestDatabase(engine, server)
    await migrate(database)
    return database
  }
  return engine === 'postgres'
    ? createPostgres(process.env.TEST_DATABASE_URL, template)
    : createSqlite(join(folder, TEMPLATE_FILE))
}

/** Makes the templates of `createMigratedDatabase`; returns the name of that on PostgreSQL. */
export async function makeTemplates(folder: string, server: string): Promise<string> {
  const database = await createPostgres(server)
  const file = join(folder, TEMPLATE_FILE)
  await Promise.all([migrate(database), migrate({ config: { engine: 'sqlite', file } })])
  return database.name
}

/** In this thread, with time enough for a busy machine. */
export function openPatientStore(
  database: DatabaseConfig,
  onConnectionLost: (error: Error) => void = () => {},
): Promise<Store> {
  return openStore(database, onConnectionLost, OPERATION_TIMEOUT_MS)
}

async function migrate({ config }: Pick<TestDatabase, 'config'>): Promise<void> {
  const store = await openPatientStore(config)
  await store.migrations.apply()
  await store.close()
}

/** Opens a store on a new database with all tables; both are removed after the calling suite. */
export async function openTestStore(engine: EngineName) {
  const database = await createMigratedDatabase(engine)
  const store = await openPatientStore(database.config)
  after(async () => {
    await store.close()
    await database.drop()
  })
  return { store, database }
}

async function createSqlite(template?: string): Promise<TestDatabase> {
  const folder = await makeTemporaryFolder('login-sqlite-')
  const file = join(folder, 'login.db')
  if (template) await copyFile(template, file)
  return {
    config: { engine: 'sqlite', file },
    async rows(statement) {
      const database = new DatabaseSync(file, { timeout: 5_000 })
      try {
        return database.prepare(statement).all()
      } finally {
        database.close()
      }
    },
    drop: () => rm(folder, { recursive: true }),
  }
}

async function createPostgres(
  server: string | undefined,
  template = 'template1',
): Promise<TestDatabase & { name: string }> {
  if (!server) throw new Error('TEST_DATABASE_URL is not set: run the tests with "npm test"')
  const name = `login_test_${randomBytes(8).toString('hex')}`
  // Without the write-ahead log, which takes longer.
  await query(server, `create database ${name} template ${template} strategy file_copy`)
  const url = new URL(server)
  url.pathname = `/${name}`
  return {
    name,
    config: { engine: 'postgres', url: url.toString(), poolSize: 10 },
    rows: statement => query(url.toString(), statement),
    async drop() {
      await query(server, `drop database ${name} with (force)`)
    },
  }
}

/** With the name of a standby that does not exist, commits wait; without a name, they go on. */
export async function nameStandby({ url }: { url: string }, name: string): Promise<void> {
  await query(url, `alter system set synchronous_standby_names = '${name}'`)
  await query(url, 'select pg_reload_conf()')
}

/** Runs one statement on a connection of its own. */
export async function query(url: string, statement: string): Promise<Row[]> {
  const client = new pg.Client({ connectionString: url })
  // The statement fails, too, when the connection is lost.
  client.on('error', () => {})
  await client.connect()
  try {
    return (await client.query<Row>(statement)).rows
  } finally {
    await client.end()
  }
}
