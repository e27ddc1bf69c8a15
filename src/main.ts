// The entry point: parses the arguments, runs a command and sets the exit code.
import { readFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { type Command, CommanderError } from 'commander'
import { createProgram } from './cli/program.ts'
import { createTerminal } from './cli/terminal.ts'
import { ConfigError } from './config/config.ts'
import { warnOfIgnoredLines } from './config/unknown-variables.ts'
import { Failure } from './system/failures.ts'
import { hasCode, messageOf } from './system/files.ts'

// Hashing may occupy one thread per core; token verification, files and DNS lookups have four more threads.
// This must be set before libuv's thread pool is first used.
process.env.UV_THREADPOOL_SIZE ??= String(availableParallelism() + 4)
// Only the owner may read or write the databases, keys and certificates that this process creates.
process.umask(0o077)

const EXIT_CODES: Record<Failure['code'], number> = {
  'output-closed': 0,
  failed: 1,
  'not-found': 1,
  'email-taken': 1,
  'weak-password': 1,
  'password-known': 1,
  'wrong-use': 2,
}

const terminal = createTerminal(process)
const envFileWarnings: string[] = []
const context = { terminal, env: process.env, envFileWarnings, clock: () => new Date() }

// "help users add" is "users add --help".
const [firstWord, ...otherWords] = process.argv.slice(2)
const words = firstWord === 'help' ? [...otherWords, '--help'] : process.argv.slice(2)
const program = await createProgram(context, words[0])

try {
  loadEnvFile()
  if (words.length > 0) await run()
  else program.outputHelp()
} catch (error) {
  process.exitCode = explain(error)
}

/** Commander reports a missing option first. An unknown one is reported instead: it may be the other one misspelt. */
async function run(): Promise<void> {
  try {
    await program.parseAsync(words, { from: 'user' })
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error
    if (error.code !== 'commander.missingMandatoryOptionValue') throw error
    const command = program.args.reduce<Command>(
      (outer, word) => outer.commands.find(inner => inner.name() === word) ?? outer,
      program,
    )
    const { unknown } = command.parseOptions(words)
    if (unknown.length === 0) throw error
    for (const option of command.options) option.makeOptionMandatory(false)
    await program.parseAsync(words, { from: 'user' })
  }
}

function loadEnvFile(): void {
  try {
    process.loadEnvFile('.env')
    envFileWarnings.push(...warnOfIgnoredLines(readFileSync('.env', 'utf8')))
  } catch (error) {
    if (!hasCode(error, 'ENOENT')) throw new ConfigError([`.env: ${messageOf(error)}`])
  }
}

function explain(error: unknown): number {
  if (error instanceof CommanderError) {
    if (error.exitCode === 0) return 0
    // Commander has printed the help because a subcommand is missing.
    if (error.code !== 'commander.help') terminal.say(toSentence(error.message))
    return EXIT_CODES['wrong-use']
  }
  if (error instanceof ConfigError) {
    terminal.say(error.message)
    return EXIT_CODES['wrong-use']
  }
  if (error instanceof Failure) {
    if (error.message) terminal.say(error.message)
    return EXIT_CODES[error.code]
  }
  // The operating system refused a file or socket, and the message names it.
  if (error instanceof Error && 'syscall' in error) {
    terminal.say(`${messageOf(error)}.`)
    return EXIT_CODES.failed
  }
  throw error
}

/** Leaves out the value of an unknown option, because it may be a password. */
function toSentence(message: string): string {
  const text = message
    .replace(/^error: (.)/, (_, first: string) => first.toUpperCase())
    .replace(/^(Unknown option '[^=']*)=.*'/s, "$1'")
    .replace(/\n\((Did you mean .*)\)$/, '. $1')
  if (text.endsWith('?')) return text
  return `${text.replace(/\.$/, '')}. Add --help to see the usage.`
}
