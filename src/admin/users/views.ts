// users list|show
import type { Command } from 'commander'
import type { Store } from '../../domain/store.ts'
import type { User } from '../../domain/user.ts'
import { type Context, type JsonOption, printList } from '../context.ts'
import { FOR_EVER, requireUser } from '../operations/users.ts'
import { parseEmail } from '../terminal/arguments.ts'
import { fieldsOf, formatTime, jsonOf } from '../terminal/layout.ts'
import { withStore } from '../with-store.ts'

const LIST_BATCH = 1_000

export function addViewCommands(users: Command, context: Context): void {
  users
    .command('list')
    .description('list all users')
    .option('--json', 'print JSON')
    .action((options: JsonOption) =>
      withStore(context, async ({ store, clock }) => {
        const now = clock()
        const listed = await printList(context, batchesOf(store), options, user => ({
          email: user.email,
          role: user.role,
          created: user.createdAt.toISOString().slice(0, 10),
          state: stateOf(user, now),
          // The last column, because some scripts have characters that are two columns wide.
          name: user.name,
        }))
        if (listed === 0 && !options.json) {
          context.terminal.say('There are no users yet: run "users add" to add one.')
        }
      }),
    )

  users
    .command('show')
    .description('show one user')
    .argument('<email>', 'email of the user', parseEmail)
    .option('--json', 'print JSON')
    .action((email: string, { json }: JsonOption) =>
      withStore(context, async ({ store, clock, admin }) => {
        const user = await requireUser(admin, email)
        const now = clock()
        const liveSessions = await store.countLiveSessions(user.id, now)
        await context.terminal.print(
          json
            ? jsonOf({ ...withoutHash(user), liveSessions })
            : fieldsOf({
                email: user.email,
                name: user.name,
                role: user.role,
                id: user.id,
                state: stateOf(user, now),
                failures: `${user.failedLoginAttempts} in a row`,
                sessions: `${liveSessions} live`,
                created: formatTime(user.createdAt),
                updated: formatTime(user.updatedAt),
              }),
        )
      }),
    )
}

async function* batchesOf(store: Store) {
  for (let after = ''; ; ) {
    const batch = await store.listUsers(after, LIST_BATCH)
    yield batch.map(withoutHash)
    const last = batch.at(-1)
    if (!last || batch.length < LIST_BATCH) return
    after = last.email
  }
}

function withoutHash({ passwordHash: _, ...user }: User) {
  return user
}

function stateOf(
  { isActive, lockedUntil, lockedBy }: Pick<User, 'isActive' | 'lockedUntil' | 'lockedBy'>,
  now: Date,
): string {
  const isLocked = lockedUntil !== null && lockedUntil > now
  if (!isLocked) return isActive ? 'active' : 'inactive'
  const term = lockedUntil >= FOR_EVER ? '' : ` until ${formatTime(lockedUntil)}`
  return `${isActive ? '' : 'inactive, '}locked by ${lockedBy ?? 'administrator'}${term}`
}
