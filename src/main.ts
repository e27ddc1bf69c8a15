// The process: arguments -> command -> exit code.
import { existsSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { Command, CommanderError, InvalidArgumentError } from 'commander'
import { databaseCommand } from './admin/database.ts'
import { doctorCommand } from './admin/doctor.ts'
import { keysCommand } from './admin/keys.ts'
import { createTerminal, Refusal } from './admin/terminal.ts'
import { usersCommand } from './admin/users.ts'
import { ConfigError, loadConfig } from './config.ts'
import { createLog } from './log.ts'
import { StartError, serve } from './serve.ts'
import { KeyFileError } from './session/keys.ts'

const REFUSED = 1
const WRONG_USE = 2

// Hashing may fill a thread a core; signing, files and look-ups have four more to themselves. It
// must be set before the first use of libuv's pool.
process.env.UV_THREADPOOL_SIZE ??= String(availableParallelism() + 4)
// Databases, keys and certificates are the owner's alone.
process.umask(0o077)
if (existsSync('.env')) process.loadEnvFile('.env')

const clock = () => new Date()
const context = { terminal: createTerminal(process), env: process.env, clock }

const program = new Command('login-service')
  .description('E-mail and password in, user summary and two JWTs out.')
  .exitOverride()
  .addCommand(
    new Command('serve').description('run the service').action(async () => {
      const config = loadConfig(process.env)
      const log = createLog(config.logLevel, process.stdout)
      const service = await serve(config, log, clock)
      for (const signal of ['SIGTERM', 'SIGINT'] as const) {
        process.on(signal, () => service.stop(signal))
      }
    }),
  )
  .addCommand(usersCommand(context))
  .addCommand(keysCommand(context))
  .addCommand(databaseCommand(context))
  .addCommand(doctorCommand(context))

try {
  for (const command of allCommands(program)) command.exitOverride()
  await program.parseAsync()
} catch (error) {
  process.exitCode = explain(error)
}

/** Settings are not inherited by commands that were made on their own. */
function allCommands(command: Command): Command[] {
  return [command, ...command.commands.flatMap(allCommands)]
}

function explain(error: unknown): number {
  // Commander has said what is wrong, or printed the help that was asked for.
  if (error instanceof CommanderError && !(error instanceof InvalidArgumentError)) {
    return error.exitCode === 0 ? 0 : WRONG_USE
  }
  if (error instanceof ConfigError || error instanceof InvalidArgumentError) {
    context.terminal.say(error.message)
    return WRONG_USE
  }
  if (error instanceof Refusal || error instanceof StartError || error instanceof KeyFileError) {
    context.terminal.say(error.message)
    return REFUSED
  }
  // Ctrl-C at a prompt.
  if (error instanceof Error && error.name === 'ExitPromptError') return REFUSED
  throw error
}
