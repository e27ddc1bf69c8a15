// The entry point: parses the arguments, runs a command and sets the exit code.
import { readFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { Command, CommanderError, type Help } from 'commander'
import packageJson from '../package.json' with { type: 'json' }
import { auditCommand } from './admin/audit.ts'
import { databaseCommand } from './admin/database.ts'
import { devicesCommand } from './admin/devices.ts'
import { doctorCommand } from './admin/doctor/doctor.ts'
import { FAILED, Failure, WRONG_USE } from './admin/failures.ts'
import { keysCommand } from './admin/keys.ts'
import { sessionsCommand } from './admin/sessions.ts'
import { createTerminal } from './admin/terminal/terminal.ts'
import { throttleCommand } from './admin/throttle.ts'
import { tokensCommand } from './admin/tokens/tokens.ts'
import { usersCommand } from './admin/users/users.ts'
import { ConfigError, loadConfig } from './config/config.ts'
import { warnOfIgnoredLines } from './config/unknown-variables.ts'
import { describeVariables } from './config/variables.ts'
import { hasCode, messageOf } from './files.ts'
import { createLog } from './log/log.ts'
import { StartError } from './start.ts'

// Hashing may occupy one thread per core; token verification, files and DNS lookups have four more threads.
// This must be set before libuv's thread pool is first used.
process.env.UV_THREADPOOL_SIZE ??= String(availableParallelism() + 4)
// Only the owner may read or write the databases, keys and certificates that this process creates.
process.umask(0o077)

const clock = () => new Date()
const terminal = createTerminal(process)
const envFileWarnings: string[] = []
const context = { terminal, env: process.env, envFileWarnings, clock }

const program = new Command('npm run -s admin --')
  .description('Email and password in, user summary and two JWTs out.')
  .version(packageJson.version)
  .addCommand(
    new Command('serve')
      .description('run the service')
      .addHelpText('after', ({ command }) => helpOnVariables(command.createHelp()))
      .action(async () => {
        // Loaded here, because the other commands do not need the server's libraries: with them, --help takes
        // 0.7 s instead of 0.2 s.
        const { serveUntilSignal } = await import('./serve.ts')
        const config = loadConfig(process.env, envFileWarnings)
        const log = createLog(config.logLevel, process.stdout)
        await serveUntilSignal(config, log, clock).catch(error => {
          throw error instanceof StartError ? new Failure(error.message) : error
        })
      }),
  )
  .addCommand(usersCommand(context))
  .addCommand(sessionsCommand(context))
  .addCommand(devicesCommand(context))
  .addCommand(auditCommand(context))
  .addCommand(throttleCommand(context))
  .addCommand(keysCommand(context))
  .addCommand(tokensCommand(context))
  .addCommand(databaseCommand(context))
  .addCommand(doctorCommand(context))
  .addHelpText(
    'after',
    `
Example:
  npm run -s admin -- users add ann@example.org --name 'Ann Example'

Exit codes: 0 success, 1 refused or not found, 2 wrong use.`,
  )

try {
  loadEnvFile()
  for (const command of allCommands(program)) {
    // `explain` prints all errors.
    command.exitOverride().configureOutput({ outputError: () => {} })
  }
  if (process.argv.length > 2) await run()
  else program.outputHelp()
} catch (error) {
  process.exitCode = explain(error)
}

/** Commander reports a missing option first. An unknown one is reported instead: it may be the other one misspelt. */
async function run(): Promise<void> {
  try {
    await program.parseAsync()
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error
    if (error.code !== 'commander.missingMandatoryOptionValue') throw error
    const command = program.args.reduce<Command>(
      (outer, word) => outer.commands.find(inner => inner.name() === word) ?? outer,
      program,
    )
    const { unknown } = command.parseOptions(process.argv.slice(2))
    if (unknown.length === 0) throw error
    for (const option of command.options) option.makeOptionMandatory(false)
    await program.parseAsync()
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

function helpOnVariables(help: Help): string {
  const described = describeVariables().map(({ name, byDefault, values, meaning }) => {
    const rules = byDefault ? `${values}; default: ${byDefault}` : values
    return { name, text: `${meaning} [${rules}]`.replaceAll('`', '') }
  })
  const width = Math.max(...described.map(({ name }) => name.length))
  const items = described.map(({ name, text }) => help.formatItem(name, width, text, help))
  return ['', 'Environment variables:', ...items].join('\n')
}

/** Commands added with `addCommand` do not inherit these settings, so each one gets them. */
function allCommands(command: Command): Command[] {
  return [command, ...command.commands.flatMap(allCommands)]
}

function explain(error: unknown): number {
  if (error instanceof CommanderError) {
    if (error.exitCode === 0) return 0
    // Commander has printed the help because a subcommand is missing.
    if (error.code !== 'commander.help') terminal.say(toSentence(error.message))
    return WRONG_USE
  }
  if (error instanceof ConfigError) {
    terminal.say(error.message)
    return WRONG_USE
  }
  if (error instanceof Failure) {
    if (error.message) terminal.say(error.message)
    return error.exitCode
  }
  // The operating system refused a file or socket, and the message names it.
  if (error instanceof Error && 'syscall' in error) {
    terminal.say(`${messageOf(error)}.`)
    return FAILED
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
