// The configured database, opened for one command.
import { statSync } from 'node:fs'
import type { AdminDeps } from '../admin/operations/deps.ts'
import type { Config } from '../config/config.ts'
import { type DatabaseConfig, sourceOf } from '../config/database.ts'
import type { MaintenanceStore } from '../domain/maintenance.ts'
import { describeProgress } from '../domain/migration.ts'
import { wrapMethods } from '../domain/operations.ts'
import type { Store } from '../domain/store.ts'
import { offsetOf, readDatabaseClock } from '../service/cluster-clock.ts'
import { makeDataFolder } from '../service/data-folder.ts'
import { Failure } from '../system/failures.ts'
import { type Context, configOf } from './context.ts'
import { commandActor } from './terminal.ts'

/** Longer than the service allows: a command may change more rows than a request does. */
const COMMAND_TIMEOUT_MS = 60_000
const IN_MEMORY: DatabaseConfig = { engine: 'sqlite', file: ':memory:' }

/** `where` names the database in messages. */
type Opened = { store: Store; config: Config; where: string }
export type OpenedForAdmin = Opened & { admin: AdminDeps }

/**
 * Requires up-to-date tables, so that a mistyped DATA_DIR does not look like a service without users. `whenNew: 'empty'`, for a
 * dry run: an empty database takes the place of one that is not set up yet.
 */
export function withStore<T>(
  context: Context,
  command: (opened: OpenedForAdmin) => Promise<T>,
  whenNew: 'refused' | 'empty' = 'refused',
): Promise<T> {
  return withAnyStore(configOf(context), async opened => {
    const { store, config, where } = opened
    const pending = (await store.migrations.list()).map(({ appliedAt }) => appliedAt === null)
    if (pending.every(Boolean) && whenNew === 'empty') {
      return using(config, IN_MEMORY, async empty => {
        await empty.store.migrations.apply(() => {})
        const named = { ...empty, where: `${where}, which is not set up yet` }
        return command({ ...named, admin: await adminOf(named, context) })
      })
    }
    if (pending.every(Boolean)) {
      throw new Failure(
        `${where} is not set up yet. If ${sourceOf(config.database)} is right, run "users add" or "database migrate" to set it up.`,
      )
    }
    if (pending.some(Boolean)) {
      throw new Failure(`${where} is not up to date: run "database migrate".`)
    }
    return command({ ...opened, admin: await adminOf(opened, context) })
  })
}

/** Creates or updates the database and its tables; `applied` names the migrations that were run. */
export async function withMigratedStore<T>(
  context: Context,
  command: (opened: OpenedForAdmin & { applied: string[] }) => Promise<T>,
): Promise<T> {
  const config = configOf(context)
  const { database } = config
  if (database.engine === 'sqlite') {
    const { state, detail } = await makeDataFolder(config)
    if (state === 'problem') throw new Failure(`${detail}.`)
  }
  return using(config, database, async opened => {
    const applied = await opened.store.migrations.apply(progress =>
      context.terminal.say(`Updating the tables: ${describeProgress(progress)}.`),
    )
    return command({ ...opened, applied, admin: await adminOf(opened, context) })
  })
}

async function adminOf({ store, config }: Opened, context: Context): Promise<AdminDeps> {
  const clock = await clockOf(store.maintenance, context)
  const hashPassword = async (password: string) => {
    const { hash } = await import('bcrypt')
    return hash(password, config.bcryptCost)
  }
  const passwordRules = { ...config.passwordRules, toOverrule: 'pass --allow-weak' }
  const { budgets, bcryptCost, secondFactorRoles } = config
  return {
    ...{ store, clock, by: commandActor(), budgets, bcryptCost, secondFactorRoles },
    ...{ hashPassword, passwordRules },
    oneAtATime: work => work(),
  }
}

export async function clockOf(
  maintenance: MaintenanceStore,
  context: Context,
): Promise<() => Date> {
  const reading = await readDatabaseClock(maintenance)
  return () => new Date(context.clock().getTime() + offsetOf(reading))
}

/** Opens the database as it is. If the SQLite file is missing, opens an empty database in memory. */
export function withAnyStore<T>(
  config: Config,
  command: (opened: Opened) => Promise<T>,
): Promise<T> {
  const { database } = config
  return using(config, isMissing(database) ? IN_MEMORY : database, command)
}

async function using<T>(
  config: Config,
  database: DatabaseConfig,
  command: (opened: Opened) => Promise<T>,
): Promise<T> {
  // Loading this takes most of a command's start, and help texts and usage errors do not need it.
  const { describeDatabase, explainDatabase, openStore } = await import('../storage/open-store.ts')
  const where = describeDatabase(config.database)
  const ofStore = new Set<unknown>()
  const note = (error: unknown): never => {
    ofStore.add(error)
    throw error
  }
  let opened: Store | undefined
  try {
    opened = await openStore(database, () => {}, COMMAND_TIMEOUT_MS).catch(note)
    const store = wrapMethods(
      opened,
      (_, operation) =>
        (...values) =>
          operation(...values).catch(note),
    )
    return await command({ store, config, where })
  } catch (error) {
    if (!ofStore.has(error) || error instanceof Failure || isBug(error)) throw error
    throw new Failure(`${explainDatabase(config.database, error)}.`)
  } finally {
    await opened?.close()
  }
}

/** False if the file may not be looked at: opening it then reports the reason. */
function isMissing(database: DatabaseConfig): boolean {
  if (database.engine !== 'sqlite') return false
  try {
    return statSync(database.file, { throwIfNoEntry: false }) === undefined
  } catch {
    return false
  }
}

/** Errors of this program must not be reported as errors of the database. */
function isBug(error: unknown): boolean {
  return [TypeError, ReferenceError, SyntaxError].some(type => error instanceof type)
}
