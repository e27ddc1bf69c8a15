// sessions list|end
import { Command } from 'commander'
import { isUuid } from '../identifiers.ts'
import { canonicalEmail } from '../login/credentials.ts'
import { type Context, type JsonOption, printList } from './context.ts'
import { Failure, WrongUse } from './failures.ts'
import { parseEmail, parseId } from './input/values.ts'
import { changeNow } from './operations/deps.ts'
import { pagesOf, toPage } from './operations/pages.ts'
import { endSession, endSessions } from './operations/sessions.ts'
import { requireUser } from './operations/users.ts'
import { count, timeText } from './terminal/layout.ts'
import { withStore } from './with-store.ts'

export function sessionsCommand(context: Context): Command {
  const { terminal } = context
  const sessions = new Command('sessions').description('list and end sessions')

  sessions
    .command('list')
    .description('list the live sessions of a user')
    .argument('<email>', 'email of the user', parseEmail)
    .option('--json', 'print JSON')
    .action((email: string, options: JsonOption) =>
      withStore(context, async ({ store, admin }) => {
        const user = await requireUser(admin, email)
        const now = admin.clock()
        const pages = pagesOf(async (afterId: string | null, limit) => {
          const live = await store.sessions.listLive(user.id, { afterId, limit }, now)
          return toPage(live ?? [], limit)
        })
        const listed = await printList(context, pages, options, session => ({
          id: session.id,
          'logged in': timeText(session.createdAt),
          'last used': timeText(session.lastUsedAt),
          ip: session.ip,
          'user agent': session.userAgent,
        }))
        if (listed === 0 && !options.json) terminal.say(`${email} has no live sessions.`)
      }),
    )

  sessions
    .command('end')
    .description('end one session, all sessions of a user, or all sessions of all users')
    .argument('[email-or-id]', 'email of the user, or id of the session', parseId)
    .option('--all', 'end all sessions of all users; known devices stay')
    .option('--yes', 'with --all: end them without asking')
    .action((which: string | undefined, { all, yes }: { all?: boolean; yes?: boolean }) => {
      if (all ? which !== undefined : which === undefined) {
        throw new WrongUse('Name a user or a session, or add --all to end all sessions.')
      }
      if (all && !yes && !terminal.isInteractive) {
        throw new WrongUse('There is no terminal to ask for confirmation: add --yes.')
      }
      return withStore(context, async ({ admin }) => {
        if (which === undefined) {
          if (!yes && !(await terminal.confirm('End all sessions of all users?'))) {
            throw new Failure('No session was ended.')
          }
          const ended = await admin.store.sessions.endEvery(changeNow(admin))
          const sentence = `Ended ${count(ended, 'session', 'sessions')} of all users.`
          terminal.announce('admin.all_sessions_ended', { ended }, sentence)
          return
        }
        if (isUuid(which)) {
          await endSession(admin, which)
          terminal.announce('admin.session_ended', { sessionId: which }, `Ended session ${which}.`)
          return
        }
        const email = canonicalEmail(which)
        const ended = await endSessions(admin, await requireUser(admin, email))
        const sentence = `Ended ${count(ended, 'session', 'sessions')} of ${email}.`
        terminal.announce('admin.sessions_ended', { email, ended }, sentence)
      })
    })

  return sessions
}
