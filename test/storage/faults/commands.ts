// Runs commands in this process, and says what must be true after each.
import { randomUUID } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { PassThrough } from 'node:stream'
import { text } from 'node:stream/consumers'
import { after } from 'node:test'
import bcrypt from 'bcrypt'
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
import { ownFolder } from '../../support/own.ts'
import { TEST_COST } from '../../support/service.ts'
import { DAY_MS } from '../../support/session-client.ts'
import { changeAt, insertTestUser } from '../fixtures.ts'
import { administration } from './administration.ts'
import { createFaults, type Faults } from './faults.ts'
import { findBroken } from './invariants.ts'
import type { Judge, Operations } from './loop.ts'
import { createSubjects, NEW_PASSWORD } from './subjects.ts'

/** What a command printed, and the error with which it ended. */
export type Ended = { stdout: string; stderr: string; error: unknown }
export type Commands = Awaited<ReturnType<typeof setUpCommands>>

const MAX_TRIES = 5
const AUDIT_DAYS = 30
const NEW_NAME = 'Another'

/** Commands on a new database, whose calls meet faults until the end of the test. */
export async function setUpCommands(
  engine: EngineName,
  inject: (faults: Faults) => Promise<() => void> | (() => void) = () => () => {},
) {
  const faults = createFaults()
  const database = await keepConnection(await createMigratedDatabase(engine))
  const store = await openPatientStore(database.config)
  const folder = await ownFolder()
  after(await inject(faults))
  after(store.close)
  after(database.drop)
  return { faults, database, store, folder, run: createRun(database, folder) }
}

/** What runs commands on a database. */
export function createRun({ config }: Pick<TestDatabase, 'config'>, folder: string) {
  const env = {
    NODE_ENV: 'test',
    BCRYPT_COST: String(TEST_COST),
    DATA_DIR: config.engine === 'sqlite' ? dirname(config.file) : folder,
    DATABASE_URL: config.engine === 'postgres' ? config.url : '',
    SIGNING_KEYS_FILE: join(folder, 'keys.json'),
  }
  return async (args: string[], input = '', more = {}): Promise<Ended> => {
    const [stdin, stdout, stderr] = [new PassThrough(), new PassThrough(), new PassThrough()]
    stdin.end(input)
    const printed = Promise.all([text(stdout), text(stderr)])
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
    stdout.end()
    stderr.end()
    const [out, err] = await printed
    return { stdout: out, stderr: err, error }
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

/** Every command that writes to the database, except for "database migrate". */
export function databaseCommands(commands: Commands): Operations<Ended> {
  const { run, store, folder } = commands
  const subjects = createSubjects(store)
  const { newUser, isLive, countEvents } = subjects

  const imported =
    (...options: string[]) =>
    async () => {
      const emails = [randomUUID(), randomUUID()].map(name => `${name}@example.com`)
      if (options.includes('--update')) {
        for (const email of emails) await insertTestUser(store, email, new Date())
      }
      const file = join(folder, `${randomUUID()}.ndjson`)
      const isTemporary = options.includes('temporary')
      const passwordHash = isTemporary ? undefined : bcrypt.hashSync(NEW_PASSWORD, TEST_COST)
      const lines = emails.map(email => JSON.stringify({ email, name: NEW_NAME, passwordHash }))
      await writeFile(file, `${lines.join('\n')}\n`)
      return {
        // The report of an import is printed after its transaction.
        isInParts: true,
        run: () => run(['users', 'import', file, ...options]),
        async isDone() {
          const found = await Promise.all(emails.map(email => store.users.findByEmail(email)))
          const stored = found.filter(user => user?.name === NEW_NAME)
          // One transaction stores the batch.
          if (stored.length === 1) throw new Error('half of a batch is stored')
          return stored.length === 2
        },
      }
    }

  return {
    ...administration(subjects, 'command', words => run(words.split(' '), NEW_PASSWORD)),
    'users import of hashes': imported(),
    'users import with temporary passwords': imported('--without-passwords', 'temporary'),
    'users import --update': imported('--update'),
    async 'database purge'() {
      const before = new Date(Date.now() - (AUDIT_DAYS + 1) * DAY_MS)
      const { id, sessionId } = await newUser(before)
      const [target, action] = [randomUUID(), 'database.purged'] as const
      await store.audit.record(changeAt(before), [{ action, target, targetId: null }])
      return {
        isInParts: true,
        run: () => run(['database', 'purge'], '', { AUDIT_DAYS: String(AUDIT_DAYS) }),
        async isDone() {
          const devices = await store.devices.list(id, before)
          const events = await countEvents(target, action)
          return !(await isLive(sessionId, before)) && devices.length + events === 0
        },
      }
    },
  }
}
