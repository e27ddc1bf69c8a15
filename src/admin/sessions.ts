// sessions list|end
import { Command } from 'commander'
import type { Session } from '../domain/session.ts'
import type { Store } from '../domain/store.ts'
import { isUuid } from '../identifiers.ts'
import { canonicalEmail } from '../login/credentials.ts'
import { type Context, type JsonOption, printList } from './context.ts'
import { Failure } from './failures.ts'
import { parseEmail, parseId } from './terminal/arguments.ts'
import { formatTime } from './terminal/layout.ts'
import { countEnded } from './terminal/terminal.ts'
import { requireUser, withStore } from './with-store.ts'

export function sessionsCommand(context: Context): Command {
  const { terminal } = context
  const sessions = new Command('sessions').description('list and end the sessions of a user')

  sessions
    .command('list')
    .description('list the live sessions of a user')
    .argument('<email>', 'email of the user', parseEmail)
    .option('--json', 'print JSON')
    .action((email: string, options: JsonOption) =>
      withStore(context, async ({ store, clock }) => {
        const user = await requireUser(store, email)
        const batches = batchesOf(store, user.id, clock())
        const listed = await printList(context, batches, options, session => ({
          id: session.id,
          'logged in': formatTime(session.createdAt),
          'last used': formatTime(session.lastUsedAt),
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
      withStore(context, async ({ store, clock }) => {
        if (isUuid(which)) {
          if (!(await store.endSession(which, clock()))) {
            throw new Failure(`There is no live session ${which}.`)
          }
          terminal.announce('admin.session_ended', { sessionId: which }, `Ended session ${which}.`)
          return
        }
        const email = canonicalEmail(which)
        const user = await requireUser(store, email)
        const counted = countEnded(terminal)
        await store.endSessions(user.id, null, clock(), counted.onEnded)
        const ended = counted.ended()
        const sentence = `Ended ${ended} ${ended === 1 ? 'session' : 'sessions'} of ${email}.`
        terminal.announce('admin.sessions_ended', { email, ended }, sentence)
      }),
    )

  return sessions
}

const LIST_BATCH = 1_000

async function* batchesOf(store: Store, userId: string, now: Date) {
  for (let afterId: string | null = null; ; ) {
    const batch: Session[] =
      (await store.listLiveSessions(userId, { afterId, limit: LIST_BATCH }, now)) ?? []
    yield batch
    const last = batch.at(-1)
    if (!last || batch.length < LIST_BATCH) return
    afterId = last.id
  }
}
