// users add|set-password
import { randomBytes, randomUUID } from 'node:crypto'
import bcrypt from 'bcrypt'
import { type Command, Option } from 'commander'
import { problemWithPassword } from '../../login/credentials.ts'
import type { Context, JsonOption } from '../context.ts'
import { Failure, WrongUse } from '../failures.ts'
import { toEmail, toNewEmail, toText } from '../terminal/arguments.ts'
import { jsonOf } from '../terminal/layout.ts'
import { countEnded } from '../terminal/progress.ts'
import type { Terminal } from '../terminal/terminal.ts'
import { withMigratedStore, withStore } from '../with-store.ts'
import { notFound } from './state.ts'

/** 120 random bits, in characters that survive being read out. */
const GENERATED_BYTES = 15
/** More than any password, its line end included, can have. */
const INPUT_MAX_BYTES = 1_024

type PasswordOptions = JsonOption & { passwordStdin?: boolean; generate?: boolean }
type NewUserOptions = PasswordOptions & { name: string; role: string }

export function addPasswordCommands(users: Command, context: Context): void {
  const add = users
    .command('add')
    .description('add a user; asks for the password unless an option says where it comes from')
    .requiredOption('--name <name>', 'name to show', toText('--name', 100))
    .option('--role <role>', 'role to put into the access token', toText('--role', 50), 'user')
  withPasswordOptions(add, toNewEmail).action((email: string, options: NewUserOptions) => {
    const obtainPassword = passwordSource(context, options)
    return withMigratedStore(context, async ({ store, config: { bcryptCost } }) => {
      const taken = () => new Failure(`There is already a user ${email}.`)
      if (await store.findUserByEmail(email)) throw taken()
      const password = await obtainPassword()
      const passwordHash = await bcrypt.hash(password, bcryptCost)
      const user = { id: randomUUID(), email, name: options.name, role: options.role }
      const createdAt = context.clock()
      if (!(await store.insertUser({ ...user, passwordHash, createdAt }))) throw taken()
      context.terminal.announce(
        'admin.user_added',
        { email, userId: user.id, role: user.role },
        `Added ${email} with the role "${user.role}".`,
      )
      await hand(context, options, user, password)
    })
  })

  const setPassword = users
    .command('set-password')
    .description('set a new password and end all sessions')
  withPasswordOptions(setPassword, toEmail).action((email: string, options: PasswordOptions) => {
    const obtainPassword = passwordSource(context, options)
    return withStore(context, async ({ store, config: { bcryptCost } }) => {
      if (!(await store.findUserByEmail(email))) throw notFound(email)
      const password = await obtainPassword()
      const passwordHash = await bcrypt.hash(password, bcryptCost)
      const { onEnded } = countEnded(context.terminal)
      if (!(await store.setPassword(email, passwordHash, context.clock(), onEnded))) {
        throw notFound(email)
      }
      context.terminal.announce(
        'admin.password_set',
        { email },
        `Set the password of ${email} and ended all sessions.`,
      )
      await hand(context, options, { email }, password)
    })
  })
}

function withPasswordOptions(command: Command, parse: (typed: string) => string): Command {
  return command
    .argument('<email>', 'e-mail of the user', parse)
    .addOption(
      new Option('--password-stdin', 'read the password from standard input').conflicts('generate'),
    )
    .option('--generate', 'make up a password and print it')
    .option('--json', 'print the outcome as JSON')
    .allowExcessArguments()
    .hook('preAction', (_, { args }) => {
      // The text of any other complaint would repeat what may well be a password.
      if (args.length > 1) {
        throw new WrongUse(
          'There is one argument too many. A password is never one, for others could see it: leave it out to be asked, or use --password-stdin or --generate.',
        )
      }
    })
}

/** Where the password will come from; refused at once if it can come from nowhere. */
function passwordSource({ terminal }: Context, options: PasswordOptions): () => Promise<string> {
  if (options.generate) return async () => randomBytes(GENERATED_BYTES).toString('base64url')
  if (options.passwordStdin) {
    if (terminal.isInputTyped) {
      throw new WrongUse(
        '--password-stdin is for pipes, and would show what is typed: leave it out to be asked.',
      )
    }
    return async () => toPassword(await terminal.readInput(INPUT_MAX_BYTES))
  }
  if (!terminal.isInteractive) {
    throw new WrongUse('There is no terminal to ask at: use --password-stdin or --generate.')
  }
  return () => askTwice(terminal)
}

/** Asks until two answers agree on a password that can be used, or the prompt is cancelled. */
async function askTwice(terminal: Terminal): Promise<string> {
  for (;;) {
    const password = await terminal.askHidden('Password: ')
    const problem = problemWithPassword(password)
    if (problem) terminal.say(unfit(problem))
    else if ((await terminal.askHidden('The same again: ')) === password) return password
    else terminal.say('The two passwords differ.')
  }
}

function toPassword(input: Buffer): string {
  let text: string
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(input)
  } catch {
    throw new Failure(unfit('it is not valid UTF-8'))
  }
  const password = text.replace(/\r?\n$/, '')
  const problem = /[\r\n]/.test(password)
    ? 'it has more than one line'
    : problemWithPassword(password)
  if (problem) throw new Failure(unfit(problem))
  return password
}

function unfit(problem: string): string {
  return `This password cannot be used: ${problem}.`
}

/** Prints what the caller cannot know yet. The change is made: a lost password must be told. */
async function hand(
  { terminal }: Context,
  { generate, json }: PasswordOptions,
  user: { email: string },
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
