// The commands of an administrator, and transcripts of their output.
import assert from 'node:assert/strict'
import { type ChildProcess, fork, type StdioOptions, spawn } from 'node:child_process'
import { once } from 'node:events'
import { rm } from 'node:fs/promises'
import { hostname, userInfo } from 'node:os'
import { dirname, join } from 'node:path'
import { buffer, text } from 'node:stream/consumers'
import { after } from 'node:test'
import { fileURLToPath } from 'node:url'
import { describeDatabase } from '../../src/storage/open-store.ts'
import type { EngineName } from '../../src/storage/sql/engine.ts'
import type { Ended, HostedCommand } from './cli-host.ts'
import { createMigratedDatabase, type TestDatabase } from './engines.ts'
import { own } from './own.ts'
import { TEST_COST } from './service.ts'
import { makeTemporaryFolder } from './temporary-folder.ts'

const PROJECT = fileURLToPath(new URL('../..', import.meta.url))
export const MAIN = join(PROJECT, 'src', 'main.ts')
const HOST = join(import.meta.dirname, 'cli-host.ts')
const PROCESS_ENV = {
  PATH: process.env.PATH ?? '',
  // Without the cache, compiling takes most of a start.
  NODE_COMPILE_CACHE: join(PROJECT, 'node_modules', '.cache'),
}

const DAY_MS = 86_400_000

type Environment = Record<string, string>
type RunCommand = (args: string[], input?: string | Buffer, env?: Environment) => Promise<Ended>
type Masks = [string | RegExp, string | ((masked: string) => string)][]

export type Cli = Awaited<ReturnType<typeof createCli>>

export async function createCli({ config }: TestDatabase) {
  const folder = await makeTemporaryFolder('login-cli-')
  const dataDir = config.engine === 'sqlite' ? dirname(config.file) : folder
  const env = {
    ...PROCESS_ENV,
    NODE_ENV: 'test',
    // No service listens here, so the doctor finds none.
    PORT: '1',
    BCRYPT_COST: String(TEST_COST),
    DATA_DIR: dataDir,
    DATABASE_URL: config.engine === 'postgres' ? config.url : '',
  }

  return {
    ...{ dataDir, folder, env },
    /** Runs a command in the process that all commands of a test file share, one at a time. */
    run: (args: string[], input: string | Buffer = '', more: Environment = {}) =>
      inHost({ args, input: Buffer.from(input), env: { ...env, ...more }, folder }),
    /** Runs a command in its own process: for commands at the same time, and to prove how a process ends. */
    runProcess: (args: string[], input: string | Buffer = '', more: Environment = {}) =>
      inProcess(args, input, { cwd: folder, env: { ...env, ...more } }),
    /** Runs every command of a transcript and returns the transcript with what was printed this time. */
    async replay(transcript: string, run: RunCommand) {
      const masks = masksFor(describeDatabase(config), dataDir)
      const lines: string[] = []
      for (const line of transcript.split('\n')) {
        if (/^(#|$)/.test(line)) lines.push(line)
        if (!line.startsWith('$ ')) continue
        const { args, input, env } = parseLine(line.slice(2))
        lines.push(line, ...toLines(await run(args, input, env), masks))
      }
      return lines.join('\n')
    },
    remove: () => rm(folder, { recursive: true }),
  }
}

/** Commands on a new database, by default with all tables; both are removed after the calling test or suite. */
export async function setUpCli(
  engine: EngineName = 'sqlite',
  creating: Promise<TestDatabase> = createMigratedDatabase(engine),
) {
  const database = await creating
  const cli = await own(createCli(database))
  after(database.drop)
  return { ...cli, database }
}

async function inProcess(
  args: string[],
  input: string | Buffer,
  options: { cwd: string; env: Environment },
): Promise<Ended> {
  const child = spawn(process.execPath, [MAIN, ...args], options)
  // A command that does not read its input may end before the input is written.
  child.stdin.on('error', () => {}).end(input)
  const [stdout, stderr, [code]] = await Promise.all([
    buffer(child.stdout),
    buffer(child.stderr),
    once(child, 'close'),
  ])
  return { code, stdout: stdout.toString(), stderr: stderr.toString() }
}

/** Runs a command whose stdout is this file, or a pipe that its reader has closed. */
export async function runInto({ folder, env }: Cli, stdout: number | 'pipe', args: string[]) {
  const stdio: StdioOptions = ['ignore', stdout, 'pipe']
  const child = spawn(process.execPath, [MAIN, ...args], { cwd: folder, env, stdio })
  child.stdout?.destroy()
  assert.ok(child.stderr)
  const [stderr, [code]] = await Promise.all([text(child.stderr), once(child, 'close')])
  return { code, stderr }
}

let host: { child: ChildProcess; failure: Promise<never> } | null = null
let lastCommand: Promise<unknown> = Promise.resolve()

function inHost(command: HostedCommand): Promise<Ended> {
  const ended = lastCommand.then(() => sendToHost(command))
  lastCommand = ended.catch(() => {})
  return ended
}

async function sendToHost(command: HostedCommand): Promise<Ended> {
  host ??= startHost()
  const { child, failure } = host
  // Between commands the host does not keep the test process from ending, and ends with it.
  child.ref()
  child.channel?.ref()
  child.send(command)
  const [ended] = await Promise.race([once(child, 'message'), failure])
  child.unref()
  child.channel?.unref()
  return ended
}

function startHost() {
  const child = fork(HOST, { env: PROCESS_ENV, execArgv: [], serialization: 'advanced' })
  const failure = once(child, 'exit').then(([code, signal]): never => {
    throw new Error(`the host of the commands ended with ${code ?? signal}`)
  })
  failure.catch(() => {})
  return { child, failure }
}

/** Words in single quotes or none, after an optional `printf '…' |` and assignments. */
export function parseLine(line: string): { args: string[]; input: Buffer; env: Environment } {
  const [, typed = '', command = ''] = /^(?:printf '([^']*)' \| )?(.*)$/.exec(line) ?? []
  const input = typed
    .replaceAll('\\r', '\r')
    .replaceAll('\\n', '\n')
    .replace(/\\x(..)/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)))
  const words = [...command.matchAll(/'([^']*)'|(\S+)/g)].map(word => word[1] ?? word[2] ?? '')
  const isAssignment = (word: string) => /^[A-Z_]+=/.test(word)
  return {
    args: words.filter(word => !isAssignment(word)),
    input: Buffer.from(input, 'latin1'),
    env: Object.fromEntries(words.filter(isAssignment).map(word => word.split(/=(.*)/))),
  }
}

/** Values that differ from run to run. In tables a mask is as wide as its value. */
function masksFor(database: string, dataDir: string): Masks {
  // A temporary password ends in three days, a token in 90 days or a year.
  const days = [-1, 0, 1, 2, 3, 4, 89, 90, 91, 365, 366, 367].map(day =>
    new Date(Date.now() + day * DAY_MS).toISOString().slice(0, 10),
  )
  const filled = (name: string) => (masked: string) => `<${name.padEnd(masked.length - 2, '-')}>`
  return [
    [database, '<database>'],
    [`${userInfo().username}@${hostname()}`, '<actor>'],
    [/\b(DATA_DIR|DATABASE_URL) (is )?right/g, '<variable> $2right'],
    [dataDir, '<data>'],
    [/\b[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}\b/g, '<id>'],
    [new RegExp(`(${days.join('|')})T[\\d:.]+Z`, 'g'), filled('time')],
    [new RegExp(days.join('|'), 'g'), filled('date')],
    [/^[\da-z]{4}(-[\da-z]{4}){4}$|(?<="password": ")[\da-z-]{24}(?=")/gm, '<password>'],
    [/(?<=^|"keyId":"|--target )[\w-]{43}(?=[" ])/gm, filled('access key')],
    [
      /(?<=^|"keyId":"|--target )[\w-]{11}(?="| +(?:refresh tokens|second factors) )/gm,
      filled('secret'),
    ],
    [/\blsadm_[\w-]{43}\b/g, '<token>'],
    [/\bdeleted-user-[\da-f]{16}\b/g, filled('deleted user')],
    [/(?<=fingerprint )[\da-f]{32}/g, filled('digest')],
    [/\d+ ms/g, '<n> ms'],
  ]
}

/** stdout as it is, stderr after "! ", an exit code other than 0 after "? ". */
function toLines({ code, stdout, stderr }: Ended, masks: Masks): string[] {
  const linesOf = (text: string) => (text === '' ? [] : text.replace(/\n$/, '').split('\n'))
  const shown = [
    ...linesOf(stdout),
    ...linesOf(stderr).map(line => `! ${line.startsWith('{') ? toEvent(line) : line}`.trimEnd()),
    ...(code === 0 ? [] : [`? ${code}`]),
  ].join('\n')
  const masked = masks.reduce(
    // The two calls are the same; the types of `replaceAll` have no signature for both masks.
    (text, [what, mask]) =>
      typeof mask === 'string' ? text.replaceAll(what, mask) : text.replaceAll(what, mask),
    shown,
  )
  return linesOf(masked)
}

/** The parts of a log line that are the same on every machine. */
function toEvent(line: string): string {
  const { event, msg }: { event: string; msg: string } = JSON.parse(line)
  return `${event}: ${msg}`
}
