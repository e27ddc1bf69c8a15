// users add|set-password|list|show|activate|deactivate|lock|unlock|delete

import { setTimeout as sleep } from 'node:timers/promises'
import { Command } from 'commander'
import type { Store } from '../../domain/store.ts'
import type { OnEnded } from '../../domain/user.ts'
import { BLOCK_CACHED_MS } from '../../login/throttle.ts'
import type { Context } from '../context.ts'
import { Failure, userNotFound, WrongUse } from '../failures.ts'
import { parseEmail, parseTime } from '../terminal/arguments.ts'
import { formatTime } from '../terminal/layout.ts'
import { countEnded } from '../terminal/terminal.ts'
import { withStore } from '../with-store.ts'
import { addPasswordCommands } from './passwords.ts'
import { addViewCommands, FOR_EVER } from './views.ts'

export function usersCommand(context: Context): Command {
  const users = new Command('users').description('add, show, change and delete users')
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
      .argument('<email>', 'email of the user', parseEmail)
      .action((email: string) =>
        withStore(context, async ({ store, clock }) => {
          const { onEnded } = countEnded(context.terminal)
          if (!(await apply(store, email, clock(), onEnded))) throw userNotFound(email)
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
    .argument('<email>', 'email of the user', parseEmail)
    .option(
      '--until <time>',
      'when the lock ends, for example 2030-01-31T12:00Z (default: never)',
      parseTime('--until'),
    )
    .action((email: string, { until = FOR_EVER }: { until?: Date }) =>
      withStore(context, async ({ store, clock }) => {
        if (until <= clock()) throw new WrongUse('--until must be in the future.')
        const { onEnded } = countEnded(context.terminal)
        if (!(await store.lockUser(email, until, clock(), onEnded))) throw userNotFound(email)
        const term = until === FOR_EVER ? '' : ` until ${formatTime(until)}`
        context.terminal.announce(
          'admin.user_locked',
          { email, until },
          `Locked ${email}${term} and ended all sessions.`,
        )
      }),
    )

  users
    .command('unlock')
    .description('clear the lock, failures and blocks of an email')
    .argument('<email>', 'email to unlock', parseEmail)
    .action((email: string) =>
      withStore(context, async ({ store, clock }) => {
        const isUser = await store.unlockUser(email, clock())
        // After this time no running instance has an earlier block in its cache.
        await sleep(BLOCK_CACHED_MS)
        if (!isUser) {
          // An email without a user can be blocked too.
          throw new Failure(
            `There is no user ${email}; the failures and blocks of this email were cleared.`,
          )
        }
        context.terminal.announce('admin.user_unlocked', { email }, `Unlocked ${email}.`)
      }),
    )

  users
    .command('delete')
    .description('delete a user with all sessions')
    .argument('<email>', 'email of the user', parseEmail)
    .option('--yes', 'delete without asking')
    .action((email: string, { yes }: { yes?: boolean }) => {
      if (!yes && !context.terminal.isInteractive) {
        throw new WrongUse(
          'There is no terminal to ask for confirmation: add --yes to delete without it.',
        )
      }
      return withStore(context, async ({ store }) => {
        if (!(await store.findUserByEmail(email))) throw userNotFound(email)
        if (!yes && !(await context.terminal.confirm(`Delete ${email} for good?`))) {
          throw new Failure('Nothing was deleted.')
        }
        const { onEnded } = countEnded(context.terminal)
        if (!(await store.deleteUser(email, onEnded))) throw userNotFound(email)
        context.terminal.announce('admin.user_deleted', { email }, `Deleted ${email}.`)
      })
    })

  return users
}
