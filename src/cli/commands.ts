// The groups of commands whose operations the admin API has too, and what their commands do besides.
import { Command } from 'commander'
import { parseId } from '../admin/input/values.ts'
import type { AdminDeps } from '../admin/operations/deps.ts'
import { checkNewPassword } from '../admin/operations/new-password.ts'
import { endEverySession, endSession, endSessions } from '../admin/operations/sessions.ts'
import { findUser } from '../admin/operations/user.ts'
import { OPERATIONS } from '../admin/operations.ts'
import { problemWithPassword } from '../login/credentials.ts'
import { Failure, unfitPassword, WrongUse } from '../system/failures.ts'
import { isUuid } from '../system/identifiers.ts'
import { addCommand, perform } from './command.ts'
import type { Context } from './context.ts'
import { addExportCommand } from './export.ts'
import { addImportCommand } from './import.ts'
import { readAll } from './prompt.ts'
import type { Terminal } from './terminal.ts'

/** More than the longest password with its line end. */
const INPUT_MAX_BYTES = 1_024

const ABOUT: Record<string, string> = {
  users: 'add, show, change and delete users',
  sessions: 'list and end sessions',
  'admin-tokens': 'add, list and revoke tokens of the admin API',
  audit: 'show what administrators have changed',
  throttle: 'show and clear failed logins and the waits after them',
}

export function groupOf(name: string, context: Context): Command {
  const group = new Command(name).description(ABOUT[name] ?? '')
  for (const operation of Object.values(OPERATIONS)) {
    if (!operation.command?.startsWith(`${name} `)) continue
    const isPassword = 'allowWeak' in operation.fields
    const complete = isPassword ? obtainPassword : obtainDigest
    const command = addCommand(group, operation, context, (admin, input) =>
      complete(context.terminal, admin, input),
    )
    if (isPassword) withPasswordOptions(command, context.terminal)
  }
  if (name === 'sessions') addEndCommand(group, context)
  if (name === 'users') {
    addImportCommand(group, context)
    addExportCommand(group, context)
  }
  return group
}

function addEndCommand(sessions: Command, context: Context): void {
  sessions
    .command('end')
    .description('end one session, all sessions of a user, or all sessions of all users')
    .argument('[email-or-id]', 'email of the user, or id of the session', parseId)
    .option('--all', 'end all sessions of all users; known devices stay')
    .option('--yes', 'with --all: end them without asking')
    .action((named: string | undefined, { all, yes }: { all?: boolean; yes?: boolean }) => {
      if (all ? named !== undefined : named === undefined) {
        throw new WrongUse('Name a user or a session, or add --all to end all sessions.')
      }
      if (named === undefined) return perform(context, endEverySession, {}, { yes: yes ?? false })
      return perform(context, isUuid(named) ? endSession : endSessions, { named }, {})
    })
}

function withPasswordOptions(command: Command, terminal: Terminal): void {
  command
    .option('--password-stdin', 'read the password from standard input')
    .allowExcessArguments()
    .hook('preAction', () => {
      // Commander would repeat the extra argument in its message, and it may be a password.
      if (command.args.length > 1) {
        throw new WrongUse(
          'Too many arguments. A password is not accepted here, because other users of this machine could see it: leave it out to be asked for it, or use --password-stdin or --generate.',
        )
      }
      const problem = problemWithOptions(command.opts(), terminal)
      if (problem) throw new WrongUse(problem)
    })
}

/** Found before the database is opened: options that do not fit together or give no password. */
function problemWithOptions(options: Record<string, unknown>, terminal: Terminal): string | null {
  const { passwordStdin, generate, permanent, temporary } = options
  if (passwordStdin && generate) return '--password-stdin cannot be used with --generate.'
  if (permanent && temporary) return '--permanent cannot be used with --temporary.'
  if (passwordStdin && terminal.stdin.isTTY)
    return '--password-stdin is for pipes; a terminal would show the password. Leave the option out to be asked for it.'
  if (!generate && !passwordStdin && !terminal.isInteractive)
    return 'There is no terminal to ask for the password: use --password-stdin or --generate.'
  return null
}

async function obtainPassword(
  terminal: Terminal,
  admin: AdminDeps,
  { generate, passwordStdin, named, email, name, allowWeak }: Record<string, unknown>,
): Promise<object> {
  const owner =
    named === undefined
      ? { email: String(email), name: String(name) }
      : await findUser(admin, String(named))
  if (generate) return {}
  if (passwordStdin) return { password: toPassword(await readAll(terminal.stdin, INPUT_MAX_BYTES)) }
  for (;;) {
    const password = await terminal.askHidden('Password: ')
    const problem = problemWithPassword(password)
    const refusal = problem
      ? unfitPassword(problem)
      : (await checkNewPassword(admin, { password, allowWeak: allowWeak === true }, owner)).refusal
          ?.message
    if (refusal) terminal.say(refusal)
    else if ((await terminal.askHidden('Repeat the password: ')) === password) return { password }
    else terminal.say('The two passwords differ.')
  }
}

/** As `sha256sum` prints it. Does not repeat other input: it may be a token. */
async function obtainDigest(
  { stdin }: Terminal,
  _: AdminDeps,
  { digestStdin }: Record<string, unknown>,
): Promise<object> {
  if (!digestStdin) return {}
  const input = (await readAll(stdin, INPUT_MAX_BYTES)).toString()
  const [, digest] = /^([0-9a-f]{64})(?: [ *]-)?\r?\n?$/.exec(input) ?? []
  if (digest === undefined) {
    throw new Failure('--digest-stdin takes the SHA-256 of a token: 64 characters, 0-9 and a-f.')
  }
  return { digest }
}

function toPassword(input: Buffer): string {
  let text: string
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(input)
  } catch {
    throw new Failure(unfitPassword('it is not valid UTF-8'))
  }
  const password = text.replace(/\r?\n$/, '')
  const problem = /[\r\n]/.test(password)
    ? 'it has more than one line'
    : problemWithPassword(password)
  if (problem) throw new Failure(unfitPassword(problem))
  return password
}
