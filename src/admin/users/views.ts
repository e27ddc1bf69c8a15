// users list|show
import { type Command, Option } from 'commander'
import { USER_STATES, type UserState } from '../../domain/user.ts'
import type { CountedClient } from '../../login/client-group.ts'
import { type Context, type JsonOption, printList } from '../context.ts'
import { Failure } from '../failures.ts'
import {
  clientParser,
  countParser,
  parseEmail,
  roleFilterParser,
  searchParser,
  storedEmailParser,
} from '../input/values.ts'
import { explainUser } from '../operations/explain-user.ts'
import { pagesOf } from '../operations/pages.ts'
import { listShownUsers } from '../operations/user-list.ts'
import { count, fieldLines, jsonOf } from '../terminal/layout.ts'
import { withStore } from '../with-store.ts'
import { describeState, fieldsOfUser, sentenceOf } from './explanation.ts'

type ListOptions = JsonOption & {
  search?: string
  role?: string
  state?: UserState
  limit?: number
  after?: string
}

export function addViewCommands(users: Command, context: Context): void {
  const { terminal } = context
  users
    .command('list')
    .description('list users, ordered by email')
    .option(
      '--search <text>',
      'only users with this text in their email or name',
      searchParser('--search'),
    )
    .option('--role <role>', 'only users with this role', roleFilterParser('--role'))
    .addOption(
      new Option(
        '--state <state>',
        'only users in this state (locked: by an administrator; waiting: by the throttle)',
      ).choices(USER_STATES),
    )
    .option('--limit <n>', 'at most this many', countParser('--limit'))
    .option('--after <email>', 'only users after this email', storedEmailParser('--after'))
    .option('--json', 'print JSON')
    .action(({ json, limit, after = '', ...filter }: ListOptions) =>
      withStore(context, async ({ admin }) => {
        const now = admin.clock()
        let next: string | null = null
        const pages = pagesOf(async (from: string | null, limit) => {
          const page = await listShownUsers(admin, filter, { after: from ?? after, limit })
          next = page.next
          return { items: page.users, next }
        }, limit)
        const listed = await printList(context, pages, { json: json ?? false }, user => ({
          email: user.email,
          role: user.role,
          created: user.createdAt.toISOString().slice(0, 10),
          state: describeState(user, now),
          // The last column, because some scripts have characters that are two columns wide.
          name: user.name,
        }))
        if (next !== null) {
          terminal.say(
            `Listed ${count(listed, 'user', 'users')}. To list the next ones, add --after ${quoted(next)}`,
          )
        } else if (listed === 0 && !json) {
          const isFiltered = after !== '' || Object.keys(filter).length > 0
          terminal.say(
            isFiltered
              ? 'There are no such users.'
              : 'There are no users yet: run "users add" to add one.',
          )
        }
      }),
    )

  users
    .command('show')
    .description('show one user, and why the user can or cannot log in')
    .argument('<email>', 'email of the user', parseEmail)
    .option('--client <ip>', 'the address that the user logs in from', clientParser('--client'))
    .option('--json', 'print JSON')
    .action((email: string, { json, client }: JsonOption & { client?: CountedClient }) =>
      withStore(context, async ({ admin }) => {
        const explained = await explainUser(admin, email, client ?? null)
        const { user, verdict, throttle } = explained
        const sentence = sentenceOf(email, client ?? null, explained)
        await terminal.print(
          json
            ? jsonOf({ ...(user ?? { email }), client: client?.ip ?? null, verdict, throttle })
            : (user ? `${sentence}\n` : '') + fieldLines(fieldsOfUser(explained, admin.clock())),
        )
        if (!user) throw new Failure(sentence)
      }),
    )
}

/** Quotes it for a shell: an email may have characters such as "'" and "$". */
function quoted(text: string): string {
  return /^[\w.+@-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`
}
