// users add|set-password
import { type Command, Option } from 'commander'
import { DEFAULT_ROLE, type User } from '../../domain/user.ts'
import { problemWithPassword } from '../../login/credentials.ts'
import type { Context, JsonOption } from '../context.ts'
import { emailTaken, Failure, unfitPassword, WrongUse } from '../failures.ts'
import type { Moment } from '../input/times.ts'
import { nameParser, parseEmail, parseNewEmail, roleParser } from '../input/values.ts'
import type { AdminDeps } from '../operations/deps.ts'
import { checkNewPassword } from '../operations/new-password.ts'
import { DEFAULT_END, generatePassword, parseValid } from '../operations/temporary-password.ts'
import { addUser, requireUser, setPassword } from '../operations/users.ts'
import { jsonOf, timeText } from '../terminal/layout.ts'
import { readAll } from '../terminal/prompt.ts'
import type { Terminal } from '../terminal/terminal.ts'
import { withMigratedStore, withStore } from '../with-store.ts'

/** More than the longest password with its line end. */
const INPUT_MAX_BYTES = 1_024

type PasswordOptions = JsonOption & {
  passwordStdin?: boolean
  generate?: boolean
  allowWeak?: boolean
  temporary?: boolean
  permanent?: boolean
  valid?: Moment
}
type NewUserOptions = PasswordOptions & { name: string; role: string }

export function addPasswordCommands(users: Command, context: Context): void {
  const { terminal } = context

  const add = users
    .command('add')
    .description('add a user; asks for the password unless --password-stdin or --generate is given')
    .requiredOption('--name <name>', 'display name', nameParser('--name'))
    .option('--role <role>', 'role in the access token', roleParser('--role'), DEFAULT_ROLE)
  withPasswordOptions(add, terminal, parseNewEmail).action(
    (email: string, options: NewUserOptions) =>
      withMigratedStore(context, async ({ store, admin }) => {
        if (await store.users.findByEmail(email)) throw emailTaken(email)
        const { name, role } = options
        const given = await obtainPassword(terminal, options, admin, { email, name })
        const { id } = await addUser(admin, { email, name, role }, given)
        const end = given.temporaryUntil && { temporaryUntil: given.temporaryUntil }
        terminal.announce(
          'admin.user_added',
          { email, userId: id, role, ...end },
          `Added ${email} with the role "${role}".${describeEnd(given.temporaryUntil)}`,
        )
        await printResult(terminal, options, { id, email, name, role, ...end }, given.password)
      }),
  )

  const set = users.command('set-password').description('set a new password and end all sessions')
  withPasswordOptions(set, terminal, parseEmail).action((email: string, options: PasswordOptions) =>
    withStore(context, async ({ admin }) => {
      const user = await requireUser(admin, email)
      const given = await obtainPassword(terminal, options, admin, user)
      await setPassword(admin, user, given)
      const end = given.temporaryUntil && { temporaryUntil: given.temporaryUntil }
      terminal.announce(
        'admin.password_set',
        { email, ...end },
        `Set the password of ${email} and ended all sessions.${describeEnd(given.temporaryUntil)}`,
      )
      await printResult(terminal, options, { email, ...end }, given.password)
    }),
  )
}

function withPasswordOptions(
  command: Command,
  terminal: Terminal,
  parse: (typed: string) => string,
): Command {
  return command
    .argument('<email>', 'email of the user', parse)
    .addOption(
      new Option('--password-stdin', 'read the password from standard input').conflicts('generate'),
    )
    .option('--generate', 'generate a temporary password and print it')
    .option('--temporary', 'the password is only good for setting a new one, once')
    .addOption(
      new Option('--permanent', 'a generated password is not temporary').conflicts('temporary'),
    )
    .option(
      '--valid <time>',
      'how long a temporary password is valid: 1h to 30d (default: 72h)',
      parseValid('--valid'),
    )
    .option('--allow-weak', 'set a password that is short, common or personal all the same')
    .option('--json', 'print the outcome as JSON')
    .allowExcessArguments()
    .hook('preAction', () => {
      // Commander would repeat the extra argument in its message, and it may be a password.
      if (command.args.length > 1) {
        throw new WrongUse(
          'Too many arguments. A password is not accepted here, because other users of this machine could see it: leave it out to be asked for it, or use --password-stdin or --generate.',
        )
      }
      checkOptions(command.opts<PasswordOptions>(), terminal)
    })
}

/** Refuses, before the database is opened, options that do not fit together or give no password. */
function checkOptions(options: PasswordOptions, terminal: Terminal): void {
  if (options.valid && !isTemporary(options)) {
    throw new WrongUse('--valid is for temporary passwords: add --temporary or --generate.')
  }
  if (options.passwordStdin && terminal.stdin.isTTY) {
    throw new WrongUse(
      '--password-stdin is for pipes; a terminal would show the password. Leave the option out to be asked for it.',
    )
  }
  if (!options.generate && !options.passwordStdin && !terminal.isInteractive) {
    throw new WrongUse(
      'There is no terminal to ask for the password: use --password-stdin or --generate.',
    )
  }
}

/** A generated password is temporary unless it is said to be permanent; any other only if it is said. */
function isTemporary({ generate, temporary, permanent }: PasswordOptions): boolean {
  return temporary ?? (generate === true && !permanent)
}

async function obtainPassword(
  terminal: Terminal,
  options: PasswordOptions,
  admin: AdminDeps,
  owner: Pick<User, 'email' | 'name'>,
) {
  const { generate: isGenerated, passwordStdin, allowWeak, valid = DEFAULT_END } = options
  // Before it asks: this refuses a time that is not allowed.
  const temporaryUntil = isTemporary(options) ? valid(admin.clock()) : null
  const obtain = async () => {
    if (isGenerated) return generatePassword()
    if (passwordStdin) return toPassword(await readAll(terminal.stdin, INPUT_MAX_BYTES))
    return askTwice(terminal, password => checkNewPassword(admin, { password, allowWeak }, owner))
  }
  return { password: await obtain(), allowWeak, isGenerated, temporaryUntil }
}

function describeEnd(temporaryUntil: Date | null): string {
  return temporaryUntil === null
    ? ''
    : ` The password is temporary: until ${timeText(temporaryUntil)} it can be used once, to set a new one.`
}

/** Asks until two answers agree on a password that can be used, or the prompt is cancelled. */
async function askTwice(
  terminal: Terminal,
  check: (password: string) => ReturnType<typeof checkNewPassword>,
): Promise<string> {
  for (;;) {
    const password = await terminal.askHidden('Password: ')
    const problem = problemWithPassword(password)
    const refusal = problem ? unfitPassword(problem) : (await check(password)).refusal?.message
    if (refusal) terminal.say(refusal)
    else if ((await terminal.askHidden('Repeat the password: ')) === password) return password
    else terminal.say('The two passwords differ.')
  }
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

/** Prints a generated password. It is already stored, so a failure to print it must be reported. */
async function printResult(
  terminal: Terminal,
  { generate, json }: PasswordOptions,
  user: { email: string; [field: string]: unknown },
  password: string,
): Promise<void> {
  try {
    if (json) await terminal.print(jsonOf(generate ? { ...user, password } : user))
    else if (generate) await terminal.print(`${password}\n`)
  } catch (error) {
    if (!generate) throw error
    throw new Failure(
      `The password of ${user.email} was set but could not be printed: run "users set-password".`,
      { cause: error },
    )
  }
}
