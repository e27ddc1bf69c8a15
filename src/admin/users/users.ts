// users add|set-password|list|show|activate|deactivate|lock|unlock|delete

import { setTimeout as sleep } from 'node:timers/promises'
import { Command } from 'commander'
import type { Store } from '../../domain/store.ts'
import type { OnEnded } from '../../domain/user.ts'
import { BLOCK_CACHED_MS } from '../../login/throttle.ts'
import type { Context } from '../context.ts'
import { Failure, WrongUse } from '../failures.ts'
import { toEmail, toFutureTime } from '../terminal/arguments.ts'
import { toTime } from '../terminal/layout.ts'
import { countEnded } from '../terminal/progress.ts'
import { withStore } from '../with-store.ts'
import { addPasswordCommands } from './passwords.ts'
import { FOR_EVER, notFound } from './state.ts'
import { addViewCommands } from './views.ts'

export function usersCommand(context: Context): Command {
  const users = new Command('users').description('add people, change and remove them')
  addPasswordCommands(users, context)
  addViewCommands(users, context)

  const change = (
    name: string,
    description: string,
    event: string,
    done: (email: string) => string,
    apply: (store: Store, email: string, now: Date, onEnded: OnEnded) => Promise<boolean>,
  ) =>
    users
      .command(name)
      .description(description)
      .argument('<email>', 'e-mail of the user', toEmail)
      .action((email: string) =>
        withStore(context, async ({ store }) => {
          const { onEnded } = countEnded(context.terminal)
          if (!(await apply(store, email, context.clock(), onEnded))) throw notFound(email)
          context.terminal.announce(event, { email }, done(email))
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
    (store, email, now, onEnded) => store.deactivateUser(email, now, onEnded),
  )

  users
    .command('lock')
    .description('lock a user and end all sessions')
    .argument('<email>', 'e-mail of the user', toEmail)
    .option(
      '--until <time>',
      'when the lock ends, as 2030-01-31T12:00Z (default: never)',
      toFutureTime('--until', context.clock),
    )
    .action((email: string, { until = FOR_EVER }: { until?: Date }) =>
      withStore(context, async ({ store }) => {
        const { onEnded } = countEnded(context.terminal)
        if (!(await store.lockUser(email, until, context.clock(), onEnded))) throw notFound(email)
        const term = until === FOR_EVER ? '' : ` until ${toTime(until)}`
        context.terminal.announce(
          'admin.user_locked',
          { email, until },
          `Locked ${email}${term} and ended all sessions.`,
        )
      }),
    )

  users
    .command('unlock')
    .description('clear lock, failures and waits of an e-mail, at once')
    .argument('<email>', 'e-mail to unlock', toEmail)
    .action((email: string) =>
      withStore(context, async ({ store }) => {
        const isUser = await store.unlockUser(email, context.clock())
        // By then no instance remembers a refusal from before.
        await sleep(BLOCK_CACHED_MS)
        if (!isUser) {
          // An e-mail without a user has waits as well: they are gone all the same.
          throw new Failure(`There is no user ${email}; any waits of this e-mail were cleared.`)
        }
        context.terminal.announce('admin.user_unlocked', { email }, `Unlocked ${email}.`)
      }),
    )

  users
    .command('delete')
    .description('delete a user with all sessions')
    .argument('<email>', 'e-mail of the user', toEmail)
    .option('--yes', 'do not ask')
    .action((email: string, { yes }: { yes?: boolean }) => {
      if (!yes && !context.terminal.isInteractive) {
        throw new WrongUse('There is no terminal to ask at: add --yes if you are sure.')
      }
      return withStore(context, async ({ store }) => {
        if (!(await store.findUserByEmail(email))) throw notFound(email)
        if (!yes && !(await context.terminal.confirm(`Delete ${email} for good?`))) {
          throw new Failure('Nothing was deleted.')
        }
        const { onEnded } = countEnded(context.terminal)
        if (!(await store.deleteUser(email, onEnded))) throw notFound(email)
        context.terminal.announce('admin.user_deleted', { email }, `Deleted ${email}.`)
      })
    })

  return users
}
