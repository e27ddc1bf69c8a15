// users add|list|show|set-password|activate|deactivate|lock|unlock|delete
import { randomBytes, randomUUID } from 'node:crypto'
import bcrypt from 'bcrypt'
import { Command, InvalidArgumentError } from 'commander'
import { canonicalEmail, emailDigest, problemWithEmail } from '../login/credentials.ts'
import type { Store, User } from '../storage/store.ts'
import { type Context, withStore } from './context.ts'
import { Refusal } from './terminal.ts'

/** 120 random bits, in characters that survive being read out. */
const GENERATED_BYTES = 15
const LIST_BATCH = 500
/** An administrator's lock without a term. */
const FOR_EVER = new Date('9999-12-31T23:59:59.999Z')

type PasswordOptions = { passwordStdin?: boolean; generate?: boolean; json?: boolean }

export function usersCommand(context: Context): Command {
  const users = new Command('users').description('add people, change and remove them')

  withPassword(users.command('add'))
    .description('add a user')
    .argument('<email>', 'e-mail', toEmail)
    .requiredOption('--name <name>', 'name to show', toText('name', 100))
    .option('--role <role>', 'role to put into the access token', toText('role', 50), 'user')
    .action((email: string, options: PasswordOptions & { name: string; role: string }) =>
      withStore(context, (store, config) =>
        addUser(context, store, config.bcryptCost, email, options),
      ),
    )

  users
    .command('list')
    .description('list all users')
    .option('--json', 'print JSON')
    .action(({ json }: { json?: boolean }) =>
      withStore(context, async store => {
        const all: User[] = []
        for (;;) {
          const batch = await store.listUsers(all.at(-1)?.email ?? '', LIST_BATCH)
          all.push(...batch)
          if (batch.length < LIST_BATCH) break
        }
        const now = context.clock()
        if (json) return context.terminal.printJson(all.map(toJson))
        if (all.length === 0) return context.terminal.say('There are no users yet.')
        context.terminal.printTable(
          all.map(user => ({
            email: user.email,
            name: user.name,
            role: user.role,
            state: stateOf(user, now),
            created: user.createdAt.toISOString().slice(0, 10),
          })),
        )
      }),
    )

  users
    .command('show')
    .description('show one user')
    .argument('<email>', 'e-mail', canonicalEmail)
    .option('--json', 'print JSON')
    .action((email: string, { json }: { json?: boolean }) =>
      withStore(context, async store => {
        const user = await store.findUserByEmail(email)
        if (!user) throw notFound(email)
        const now = context.clock()
        const liveSessions = await store.countLiveSessions(user.id, now)
        if (json) return context.terminal.printJson({ ...toJson(user), liveSessions })
        context.terminal.printFields({
          'e-mail': user.email,
          name: user.name,
          role: user.role,
          id: user.id,
          state: stateOf(user, now),
          failures: `${user.failedLoginAttempts} in a row`,
          sessions: `${liveSessions} live`,
          created: user.createdAt.toISOString(),
          updated: user.updatedAt.toISOString(),
        })
      }),
    )

  withPassword(users.command('set-password'))
    .description('set a new password and end all sessions')
    .argument('<email>', 'e-mail', canonicalEmail)
    .action((email: string, options: PasswordOptions) =>
      withStore(context, async (store, config) => {
        if (!(await store.findUserByEmail(email))) throw notFound(email)
        const password = await obtainPassword(context, options)
        const passwordHash = await bcrypt.hash(password, config.bcryptCost)
        if (!(await store.setPassword(email, passwordHash, context.clock()))) throw notFound(email)
        announce(
          context,
          'admin.password_set',
          email,
          `Set the password of ${email} and ended all sessions.`,
        )
        showGenerated(context, options, email, password)
      }),
    )

  const change = (
    name: string,
    description: string,
    event: string,
    done: (email: string) => string,
    apply: (store: Store, email: string, now: Date) => Promise<boolean>,
  ) =>
    users
      .command(name)
      .description(description)
      .argument('<email>', 'e-mail', canonicalEmail)
      .action((email: string) =>
        withStore(context, async store => {
          if (!(await apply(store, email, context.clock()))) throw notFound(email)
          announce(context, event, email, done(email))
        }),
      )

  change(
    'activate',
    'let a user log in again',
    'admin.user_activated',
    email => `Activated ${email}.`,
    (store, email, now) => store.activateUser(email, now),
  )
  change(
    'deactivate',
    'stop a user from logging in and end all sessions',
    'admin.user_deactivated',
    email => `Deactivated ${email} and ended all sessions.`,
    (store, email, now) => store.deactivateUser(email, now),
  )
  change(
    'unlock',
    'clear lock, failures and waits of an e-mail, at once',
    'admin.user_unlocked',
    email => `Unlocked ${email}.`,
    (store, email, now) => store.unlockUser(email, emailDigest(email), now),
  )

  users
    .command('lock')
    .description('lock a user and end all sessions')
    .argument('<email>', 'e-mail', canonicalEmail)
    .option('--until <time>', 'when the lock ends, as 2030-01-31T12:00Z', toFutureTime(context))
    .action((email: string, { until = FOR_EVER }: { until?: Date }) =>
      withStore(context, async store => {
        if (!(await store.lockUser(email, until, context.clock()))) throw notFound(email)
        const term = until === FOR_EVER ? '' : ` until ${until.toISOString()}`
        announce(
          context,
          'admin.user_locked',
          email,
          `Locked ${email}${term} and ended all sessions.`,
        )
      }),
    )

  users
    .command('delete')
    .description('delete a user with all sessions')
    .argument('<email>', 'e-mail', canonicalEmail)
    .option('--yes', 'do not ask')
    .action((email: string, { yes }: { yes?: boolean }) =>
      withStore(context, async store => {
        if (!(await store.findUserByEmail(email))) throw notFound(email)
        if (!yes && !(await context.terminal.confirm(`Delete ${email} for good?`))) {
          throw new Refusal('Nothing was deleted.')
        }
        if (!(await store.deleteUser(email, emailDigest(email)))) throw notFound(email)
        announce(context, 'admin.user_deleted', email, `Deleted ${email}.`)
      }),
    )

  return users
}

async function addUser(
  context: Context,
  store: Store,
  cost: number,
  email: string,
  options: PasswordOptions & { name: string; role: string },
): Promise<void> {
  const taken = () => new Refusal(`There is already a user ${email}.`)
  if (await store.findUserByEmail(email)) throw taken()
  const password = await obtainPassword(context, options)
  const passwordHash = await bcrypt.hash(password, cost)
  const user = { id: randomUUID(), email, passwordHash, name: options.name, role: options.role }
  if (!(await store.insertUser({ ...user, createdAt: context.clock() }))) throw taken()
  announce(context, 'admin.user_added', email, `Added ${email} with the role "${user.role}".`)
  showGenerated(context, options, email, password)
}

function withPassword(command: Command): Command {
  return command
    .option('--password-stdin', 'read the password from standard input')
    .option('--generate', 'make up a password and print it')
    .option('--json', 'print what was generated as JSON')
}

async function obtainPassword(context: Context, options: PasswordOptions): Promise<string> {
  if (options.passwordStdin && options.generate) {
    throw new InvalidArgumentError('--password-stdin and --generate exclude each other')
  }
  if (options.generate) return randomBytes(GENERATED_BYTES).toString('base64url')
  if (options.passwordStdin) return context.terminal.readPassword()
  return context.terminal.askNewPassword()
}

function showGenerated(
  context: Context,
  options: PasswordOptions,
  email: string,
  password: string,
) {
  if (!options.generate) return
  if (options.json) context.terminal.printJson({ email, password })
  else context.terminal.printFields({ password })
}

function announce({ terminal }: Context, event: string, email: string, sentence: string): void {
  terminal.announce(event, { email }, sentence)
}

function notFound(email: string): Refusal {
  return new Refusal(`There is no user ${email}.`)
}

function stateOf(user: User, now: Date): string {
  if (!user.isActive) return 'inactive'
  if (user.lockedUntil === null || user.lockedUntil <= now) return 'active'
  const term = user.lockedUntil >= FOR_EVER ? '' : ` until ${user.lockedUntil.toISOString()}`
  return `locked by ${user.lockedBy ?? 'administrator'}${term}`
}

function toJson({ passwordHash: _, ...user }: User) {
  return user
}

function toEmail(typed: string): string {
  const email = canonicalEmail(typed)
  const problem = problemWithEmail(email)
  if (problem) throw new InvalidArgumentError(`This e-mail cannot be used: ${problem}.`)
  return email
}

function toText(what: string, maxLength: number) {
  return (typed: string) => {
    const text = typed.trim()
    if (text === '') throw new InvalidArgumentError(`The ${what} is empty.`)
    if (text.length > maxLength) {
      throw new InvalidArgumentError(`The ${what} has more than ${maxLength} characters.`)
    }
    if (/\p{Cc}/u.test(text) || !text.isWellFormed()) {
      throw new InvalidArgumentError(`The ${what} has characters that cannot be stored.`)
    }
    return text
  }
}

function toFutureTime({ clock }: Context) {
  return (typed: string) => {
    const time = new Date(typed)
    if (!/^\d{4}-\d\d-\d\d/.test(typed) || Number.isNaN(time.getTime()) || time <= clock()) {
      throw new InvalidArgumentError('It must be a time to come, as 2030-01-31T12:00Z.')
    }
    return time
  }
}
