// The tree of commands. If a group of commands is named, only its files are loaded.
import { Command } from 'commander'
import packageJson from '../../package.json' with { type: 'json' }
import type { Context } from './context.ts'
import { addExamples, EXAMPLES, PROGRAM } from './examples.ts'

type Group = (context: Context) => Command

const fromTable = (name: string) => async () => {
  const { groupOf } = await import('./commands.ts')
  return (context: Context) => groupOf(name, context)
}

const GROUPS = new Map<string | undefined, () => Promise<Group>>([
  ['serve', async () => (await import('./serve.ts')).serveCommand],
  ...['users', 'sessions', 'audit', 'throttle', 'admin-tokens'].map(
    name => [name, fromTable(name)] as const,
  ),
  ['keys', async () => (await import('./keys.ts')).keysCommand],
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
  const examples = EXAMPLES[path.join(' ')] ?? []
  if (examples.length > 0) addExamples(command, examples)
  for (const inner of command.commands) prepare(inner, [...path, inner.name()])
}
