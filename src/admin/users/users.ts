// users add|set-password|list|show|set|activate|deactivate|lock|unlock|delete|import|export|export-data
import { Command } from 'commander'
import type { UserFields } from '../../domain/user.ts'
import type { Context } from '../context.ts'
import { Failure, WrongUse } from '../failures.ts'
import { addExportCommand } from '../import/export.ts'
import { addImportCommand } from '../import/import.ts'
import { endParser, type Moment } from '../input/times.ts'
import { nameParser, parseEmail, parseNewEmail, roleParser } from '../input/values.ts'
import { clearEmail } from '../operations/throttle.ts'
import {
  activateUser,
  changeUser,
  deactivateUser,
  FOR_EVER,
  lockUser,
  removeUser,
  requireUser,
  unlockUser,
} from '../operations/users.ts'
import { timeText } from '../terminal/layout.ts'
import { withStore } from '../with-store.ts'
import { addExportDataCommand } from './export-data.ts'
import { addPasswordCommands } from './passwords.ts'
import { addViewCommands } from './views.ts'

const STILL_BLOCKED =
  'Blocks of clients and networks were not cleared: "throttle clear --client IP" does that.'

export function usersCommand(context: Context): Command {
  const { terminal } = context
  const users = new Command('users').description('add, show, change and delete users')
  addPasswordCommands(users, context)
  addViewCommands(users, context)

  users
    .command('activate')
    .description('let a user log in again')
    .argument('<email>', 'email of the user', parseEmail)
    .action((email: string) =>
      withStore(context, async ({ admin }) => {
        await activateUser(admin, await requireUser(admin, email))
        terminal.announce('admin.user_activated', { email }, `Activated ${email}.`)
      }),
    )

  users
    .command('deactivate')
    .description('stop a user from logging in and end all sessions')
    .argument('<email>', 'email of the user', parseEmail)
    .action((email: string) =>
      withStore(context, async ({ admin }) => {
        await deactivateUser(admin, await requireUser(admin, email))
        const sentence = `Deactivated ${email} and ended all sessions.`
        terminal.announce('admin.user_deactivated', { email }, sentence)
      }),
    )

  users
    .command('set')
    .description('change the email, name or role of a user; sessions and devices stay')
    .argument('<email>', 'email of the user', parseEmail)
    .option(
      '--email <email>',
      'new email; failures and blocks stay with the old one',
      parseNewEmail,
    )
    .option('--name <name>', 'new display name', nameParser('--name'))
    .option(
      '--role <role>',
      'new role; access tokens have it after the next refresh',
      roleParser('--role'),
    )
    .action((email: string, fields: UserFields) => {
      if (Object.keys(fields).length === 0) {
        throw new WrongUse('Nothing to set: add --email, --name or --role.')
      }
      return withStore(context, async ({ admin }) => {
        if (!(await changeUser(admin, await requireUser(admin, email), fields))) {
          terminal.say(`${email} has these values already: nothing was changed.`)
          return
        }
        const changes = Object.entries(fields).map(([name, value]) => `${name} "${value}"`)
        const sentence = `Changed ${email}: ${changes.join(', ')}.`
        terminal.announce('admin.user_changed', { email, ...renamed(fields) }, sentence)
      })
    })

  users
    .command('lock')
    .description('lock a user and end all sessions')
    .argument('<email>', 'email of the user', parseEmail)
    .option(
      '--until <time>',
      'when the lock ends: a time, such as 2030-01-31T12:00 (UTC), or a duration, such as 90m, 2h or 30d (default: never)',
      endParser('--until'),
    )
    .action((email: string, { until: end = () => FOR_EVER }: { until?: Moment }) =>
      withStore(context, async ({ admin }) => {
        const until = end(admin.clock())
        await lockUser(admin, await requireUser(admin, email), until)
        const term = until === FOR_EVER ? '' : ` until ${timeText(until)}`
        terminal.announce(
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
      withStore(context, async ({ admin }) => {
        const user = await admin.store.users.findByEmail(email)
        if (!user) {
          // An email without a user can be blocked all the same.
          await clearEmail(admin, email)
          throw new Failure(
            `There is no user ${email}; the failures and blocks of this email were cleared. ${STILL_BLOCKED}`,
          )
        }
        await unlockUser(admin, user)
        terminal.announce('admin.user_unlocked', { email }, `Unlocked ${email}. ${STILL_BLOCKED}`)
      }),
    )

  users
    .command('delete')
    .description('delete a user with all sessions, and forget the user in the audit')
    .argument('<email>', 'email of the user', parseEmail)
    .option('--yes', 'delete without asking')
    .action((email: string, { yes }: { yes?: boolean }) => {
      if (!yes && !terminal.isInteractive) {
        throw new WrongUse(
          'There is no terminal to ask for confirmation: add --yes to delete without it.',
        )
      }
      return withStore(context, async ({ admin }) => {
        const user = await requireUser(admin, email)
        if (!yes && !(await terminal.confirm(`Delete ${email} for good?`))) {
          throw new Failure('Nothing was deleted.')
        }
        await removeUser(admin, user)
        terminal.announce('admin.user_deleted', { email }, `Deleted ${email}.`)
      })
    })

  addImportCommand(users, context)
  addExportCommand(users, context)
  addExportDataCommand(users, context)
  return users
}

/** The event has the user's email already. */
function renamed({ email, ...fields }: UserFields) {
  return email === undefined ? fields : { ...fields, newEmail: email }
}
