// Runs commands in this process, and says what must be true after each.
import { dirname, join } from 'node:path'
import { PassThrough } from 'node:stream'
import { Failure } from '../../src/admin/failures.ts'
import { createProgram } from '../../src/admin/program.ts'
import { createTerminal, type Streams } from '../../src/admin/terminal/terminal.ts'
import type { TestDatabase } from '../engines.ts'
import { TEST_COST } from '../service.ts'
import { findBroken } from './invariants.ts'
import type { Judge } from './loop.ts'

/** What a command printed, and the error with which it ended. */
export type Ended = { stdout: string; stderr: string; error: unknown }
const MAX_TRIES = 5

export type Commands = ReturnType<typeof createCommands>

export function createCommands({ config }: TestDatabase, folder: string) {
  const env = {
    NODE_ENV: 'test',
    BCRYPT_COST: String(TEST_COST),
    DATA_DIR: config.engine === 'sqlite' ? dirname(config.file) : folder,
    DATABASE_URL: config.engine === 'postgres' ? config.url : '',
    SIGNING_KEYS_FILE: join(folder, 'keys.json'),
    ADMIN_TOKENS_FILE: join(folder, 'admin-tokens.json'),
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

export function judgeCommands(database: TestDatabase): Judge<Ended> {
  return {
    isSuccess: ({ error }) => error === null,
    findWrongFailure({ error }) {
      // main.ts prints the message of these, and a stack of all others.
      if (error instanceof Failure && error.message !== '') return null
      if (error instanceof Error && 'syscall' in error) return null
      return `it crashed: ${error instanceof Error ? error.stack : error}`
    },
    async findProblems({ run }) {
      const problems = await findBroken(database, new Date())
      // On a busy machine, PostgreSQL may end a transaction that waits for this process for five seconds.
      const isStarved = ({ error }: Ended) => /idle-in-transaction/.test(String(error))
      let ended = await run()
      for (let tries = 1; tries < MAX_TRIES && isStarved(ended); tries++) ended = await run()
      const { error } = ended
      const isRefused = error instanceof Failure && !error.message.includes('cannot be used')
      if (error && !isRefused) problems.push(`the same command again: ${error}`)
      return problems
    },
  }
}
