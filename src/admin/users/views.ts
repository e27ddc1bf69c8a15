// users list|show
import type { Command } from 'commander'
import type { Store } from '../../domain/store.ts'
import type { User } from '../../domain/user.ts'
import { type Context, type JsonOption, printList } from '../context.ts'
import { toEmail } from '../terminal/arguments.ts'
import { fieldsOf, jsonOf, toTime } from '../terminal/layout.ts'
import { withStore } from '../with-store.ts'
import { demandUser, stateOf } from './state.ts'

const LIST_BATCH = 1_000

export function addViewCommands(users: Command, context: Context): void {
  users
    .command('list')
    .description('list all users')
    .option('--json', 'print JSON')
    .action((options: JsonOption) =>
      withStore(context, async ({ store }) => {
        const now = context.clock()
        const listed = await printList(context, batchesOf(store), options, user => ({
          email: user.email,
          role: user.role,
          created: user.createdAt.toISOString().slice(0, 10),
          state: stateOf(user, now),
          // Last, for its letters may be wider than one column.
          name: user.name,
        }))
        if (listed === 0 && !options.json) {
          context.terminal.say('There are no users yet: "users add" adds one.')
        }
      }),
    )

  users
    .command('show')
    .description('show one user')
    .argument('<email>', 'e-mail of the user', toEmail)
    .option('--json', 'print JSON')
    .action((email: string, { json }: JsonOption) =>
      withStore(context, async ({ store }) => {
        const user = await demandUser(store, email)
        const now = context.clock()
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
                created: toTime(user.createdAt),
                updated: toTime(user.updatedAt),
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
