// Runs commands in this process, and says what must be true after each.
import { rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { PassThrough } from 'node:stream'
import type { TestContext } from 'node:test'
import { createProgram } from '../../../src/cli/program.ts'
import { createTerminal, type Streams } from '../../../src/cli/terminal.ts'
import type { EngineName } from '../../../src/storage/sql/engine.ts'
import { Failure } from '../../../src/system/failures.ts'
import { keepConnection } from '../../operation/kept-connection.ts'
import {
  createMigratedDatabase,
  openPatientStore,
  type TestDatabase,
} from '../../support/engines.ts'
import { TEST_COST } from '../../support/service.ts'
import { makeTemporaryFolder } from '../../support/temporary-folder.ts'
import { createFaults, type Faults } from './faults.ts'
import { findBroken } from './invariants.ts'
import type { Judge } from './loop.ts'

/** What a command printed, and the error with which it ended. */
export type Ended = { stdout: string; stderr: string; error: unknown }
const MAX_TRIES = 5

export type Commands = ReturnType<typeof createCommands>

/** Commands on a new database, whose calls meet faults until the end of the test. */
export async function setUpCommands(
  t: TestContext,
  engine: EngineName,
  inject: (faults: Faults) => Promise<() => void> | (() => void),
) {
  const faults = createFaults()
  const database = await keepConnection(await createMigratedDatabase(engine))
  const store = await openPatientStore(database.config)
  const commands = createCommands(database, await makeTemporaryFolder('login-commands-'))
  const restore = await inject(faults)
  t.after(async () => {
    restore()
    await store.close()
    await database.drop()
    await rm(commands.folder, { recursive: true })
  })
  return { faults, database, store, commands }
}

export function createCommands({ config }: Pick<TestDatabase, 'config'>, folder: string) {
  const env = {
    NODE_ENV: 'test',
    BCRYPT_COST: String(TEST_COST),
    DATA_DIR: config.engine === 'sqlite' ? dirname(config.file) : folder,
    DATABASE_URL: config.engine === 'postgres' ? config.url : '',
    SIGNING_KEYS_FILE: join(folder, 'keys.json'),
  }
  return {
    folder,
    env,
    async run(args: string[], input = '', more = {}): Promise<Ended> {
      const [stdin, stdout, stderr] = [new PassThrough(), new PassThrough(), new PassThrough()]
      stdin.end(input)
      const printed = { stdout: '', stderr: '' }
      stdout.on('data', chunk => {
        printed.stdout += chunk
      })
      stderr.on('data', chunk => {
        printed.stderr += chunk
      })
      const streams: unknown = { stdin, stdout, stderr }
      const terminal = createTerminal(streams as Streams)
      const clock = () => new Date()
      const context = { terminal, env: { ...env, ...more }, envFileWarnings: [], clock }
      let error: unknown = null
      try {
        const program = await createProgram(context, args[0])
        await program.parseAsync(args, { from: 'user' })
      } catch (thrown) {
        error = thrown
      }
      return { ...printed, error }
    },
  }
}

export function judgeCommands(database: Pick<TestDatabase, 'rows'>): Judge<Ended> {
  return {
    isSuccess: ({ error }) => error === null,
    findWrongFailure({ error }) {
      // main.ts prints the message of these, and a stack of all others.
      if (error instanceof Failure && error.message !== '') return null
      if (error instanceof Error && 'syscall' in error) return null
      return `it crashed: ${error instanceof Error ? error.stack : error}`
    },
    findProblems: async ({ run }) => [
      ...(await findBroken(database, new Date())),
      ...(await findWrongRepetition(run)),
    ],
  }
}

/** The same command works again, or is refused because it was done. */
export async function findWrongRepetition(run: () => Promise<Ended>): Promise<string[]> {
  // On a busy machine, PostgreSQL may end a transaction that waits for this process for five seconds.
  const isStarved = ({ error }: Ended) => /idle-in-transaction/.test(String(error))
  let ended = await run()
  for (let tries = 1; tries < MAX_TRIES && isStarved(ended); tries++) ended = await run()
  const { error } = ended
  const isRefused = error instanceof Failure && !error.message.includes('cannot be used')
  return error && !isRefused ? [`the same command again: ${error}`] : []
}
