// sessions list|end
import { Command } from 'commander'
import type { Session, SessionStore } from '../domain/session.ts'
import { isUuid } from '../identifiers.ts'
import { canonicalEmail } from '../login/credentials.ts'
import { type Context, type JsonOption, printList } from './context.ts'
import { parseEmail, parseId } from './input/values.ts'
import { endSession, endSessions } from './operations/sessions.ts'
import { requireUser } from './operations/users.ts'
import { count, timeText } from './terminal/layout.ts'
import { withStore } from './with-store.ts'

export function sessionsCommand(context: Context): Command {
  const { terminal } = context
  const sessions = new Command('sessions').description('list and end the sessions of a user')

  sessions
    .command('list')
    .description('list the live sessions of a user')
    .argument('<email>', 'email of the user', parseEmail)
    .option('--json', 'print JSON')
    .action((email: string, options: JsonOption) =>
      withStore(context, async ({ store, clock, admin }) => {
        const user = await requireUser(admin, email)
        const batches = batchesOf(store.sessions, user.id, clock())
        const listed = await printList(context, batches, options, session => ({
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
    .description('end one session, or all sessions of a user')
    .argument('<email-or-id>', 'email of the user, or id of the session', parseId)
    .action((which: string) =>
      withStore(context, async ({ admin }) => {
        if (isUuid(which)) {
          await endSession(admin, which)
          terminal.announce('admin.session_ended', { sessionId: which }, `Ended session ${which}.`)
          return
        }
        const email = canonicalEmail(which)
        const ended = await endSessions(admin, await requireUser(admin, email))
        const sentence = `Ended ${count(ended, 'session', 'sessions')} of ${email}.`
        terminal.announce('admin.sessions_ended', { email, ended }, sentence)
      }),
    )

  return sessions
}

const LIST_BATCH = 1_000

async function* batchesOf(sessions: SessionStore, userId: string, now: Date) {
  for (let afterId: string | null = null; ; ) {
    const batch: Session[] =
      (await sessions.listLive(userId, { afterId, limit: LIST_BATCH }, now)) ?? []
    yield batch
    const last = batch.at(-1)
    if (!last || batch.length < LIST_BATCH) return
    afterId = last.id
  }
}
