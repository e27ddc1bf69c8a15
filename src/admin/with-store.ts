// The configured database, opened for one command.
import { statSync } from 'node:fs'
import { mkdir } from 'node:fs/promises'
import type { Config } from '../config/config.ts'
import type { DatabaseConfig } from '../config/database.ts'
import type { Store } from '../domain/store.ts'
import { type Context, configOf } from './context.ts'
import { Failure, messageOf } from './failures.ts'

/** A command may change more rows than a request, and no caller times out meanwhile. */
const OPERATION_TIMEOUT_MS = 60_000

/** `where` names the database, for people. */
type Opened = { store: Store; config: Config; where: string }

/** Most commands need the tables: a mistyped DATA_DIR must not look like a service without users. */
export function withStore<T>(
  context: Context,
  command: (opened: Opened) => Promise<T>,
): Promise<T> {
  return withAnyStore(configOf(context), async opened => {
    const { store, config, where } = opened
    const pending = (await store.listMigrations()).map(({ appliedAt }) => appliedAt === null)
    if (pending.every(Boolean)) {
      throw new Failure(
        `${where} is not set up yet. Is ${sourceOf(config.database)} right? If so, "users add" or "database migrate" sets it up.`,
      )
    }
    if (pending.some(Boolean)) {
      throw new Failure(`${where} is not up to date: run "database migrate".`)
    }
    return command(opened)
  })
}

/** Makes the database and its tables if need be; `applied` names the migrations that were run. */
export async function withMigratedStore<T>(
  context: Context,
  command: (opened: Opened & { applied: string[] }) => Promise<T>,
): Promise<T> {
  const config = configOf(context)
  const { database, dataDir } = config
  if (database.engine === 'sqlite') {
    await mkdir(dataDir, { recursive: true }).catch(error => {
      throw new Failure(
        `The folder ${dataDir} cannot be made: ${messageOf(error)}. Set DATA_DIR to one that you may write to.`,
      )
    })
  }
  return using(config, database, async opened =>
    command({ ...opened, applied: await opened.store.migrate() }),
  )
}

/** Whatever is there; a file that is not there is not made. */
export function withAnyStore<T>(
  config: Config,
  command: (opened: Opened) => Promise<T>,
): Promise<T> {
  const { database } = config
  const present: DatabaseConfig = isMissing(database)
    ? { engine: 'sqlite', file: ':memory:' }
    : database
  return using(config, present, command)
}

async function using<T>(
  config: Config,
  database: DatabaseConfig,
  command: (opened: Opened) => Promise<T>,
): Promise<T> {
  // Most of a command's start is spent on this; help and wrong use need not wait for it.
  const { describeDatabase, openStore } = await import('../storage/open-store.ts')
  const where = describeDatabase(config.database)
  let store: Store | undefined
  try {
    store = await openStore(database, () => {}, OPERATION_TIMEOUT_MS)
    return await command({ store, config, where })
  } catch (error) {
    if (error instanceof Failure || isBug(error)) throw error
    throw new Failure(
      `${where} cannot be used: ${messageOf(error)}. Check that it is there, that you may use it, and that ${sourceOf(database)} is right.`,
    )
  } finally {
    await store?.close()
  }
}

/** One that is out of reach for this user is there: opening it will say so. */
function isMissing(database: DatabaseConfig): boolean {
  if (database.engine !== 'sqlite') return false
  try {
    return statSync(database.file, { throwIfNoEntry: false }) === undefined
  } catch {
    return false
  }
}

/** The variable that says which database it is. */
function sourceOf({ engine }: DatabaseConfig): string {
  return engine === 'sqlite' ? 'DATA_DIR' : 'DATABASE_URL'
}

/** Own mistakes are not to be blamed on the database. */
function isBug(error: unknown): boolean {
  return (
    error instanceof TypeError || error instanceof ReferenceError || error instanceof SyntaxError
  )
}
