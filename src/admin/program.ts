// The tree of commands. If a group of commands is named, only its files are loaded.
import { Command } from 'commander'
import packageJson from '../../package.json' with { type: 'json' }
import { completionCommand } from './completion.ts'
import type { Context } from './context.ts'
import { EXAMPLES } from './examples.ts'

const PROGRAM = './login-service'

type Group = (context: Context) => Command

const GROUPS = new Map<string | undefined, () => Promise<Group>>([
  ['serve', async () => (await import('./serve.ts')).serveCommand],
  ['users', async () => (await import('./users/users.ts')).usersCommand],
  ['sessions', async () => (await import('./sessions.ts')).sessionsCommand],
  ['devices', async () => (await import('./devices.ts')).devicesCommand],
  ['audit', async () => (await import('./audit.ts')).auditCommand],
  ['throttle', async () => (await import('./throttle.ts')).throttleCommand],
  ['keys', async () => (await import('./keys.ts')).keysCommand],
  ['admin-tokens', async () => (await import('./tokens/tokens.ts')).tokensCommand],
  ['database', async () => (await import('./database.ts')).databaseCommand],
  ['doctor', async () => (await import('./doctor/doctor.ts')).doctorCommand],
])

/** The whole tree, unless `firstWord` names a group. */
export async function createProgram(
  context: Context,
  firstWord: string | undefined,
): Promise<Command> {
  const program = new Command(PROGRAM)
    .description('Email and password in, user summary and two JWTs out.')
    .version(packageJson.version)
    // An id of a key may begin with -V, and must not be taken for the option of the program.
    .enablePositionalOptions()
  const named = GROUPS.get(firstWord)
  for (const load of named ? [named] : GROUPS.values()) {
    const createGroup = await load()
    program.addCommand(createGroup(context))
  }
  program.addCommand(completionCommand(program, context.terminal))
  prepare(program, [])
  return program.addHelpText(
    'after',
    '\nExit codes: 0 success, 1 refused or not found, 2 wrong use.',
  )
}

/** Commands added with `addCommand` do not inherit settings, so each one gets them. */
function prepare(command: Command, path: string[]): void {
  // main.ts prints all errors.
  command.exitOverride().configureOutput({ outputError: () => {} })
  for (const option of command.options) {
    if (option.mandatory) option.description += ' (required)'
  }
  const examples = EXAMPLES[path.join(' ')]?.map(example => `\n  ${PROGRAM} ${example}`) ?? []
  if (examples.length > 0) {
    const title = examples.length === 1 ? 'Example' : 'Examples'
    command.addHelpText('after', `\n${title}:${examples.join('')}`)
  }
  for (const inner of command.commands) prepare(inner, [...path, inner.name()])
}
