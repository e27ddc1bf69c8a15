// users export-data
import type { Command } from 'commander'
import type { Context } from '../context.ts'
import { parseEmail } from '../input/values.ts'
import { pagesOf } from '../operations/pages.ts'
import {
  listEventsOf,
  listStoredSessions,
  recordExport,
  summarizeUser,
} from '../operations/user-data.ts'
import { requireUser } from '../operations/users.ts'
import { jsonListOf, jsonOf } from '../terminal/layout.ts'
import { withStore } from '../with-store.ts'

export function addExportDataCommand(users: Command, context: Context): void {
  const { terminal } = context
  users
    .command('export-data')
    .description('print everything that is stored about a user, as JSON')
    .argument('<email>', 'email of the user', parseEmail)
    .action((email: string) =>
      withStore(context, async ({ admin }) => {
        const user = await requireUser(admin, email)
        await recordExport(admin, user)
        const summary = jsonOf(await summarizeUser(admin, user))
        await terminal.print(summary.replace(/\n}\n$/, ''))
        const lists = {
          sessions: pagesOf((from: string | null, limit) =>
            listStoredSessions(admin, user, from, limit),
          ),
          auditEvents: pagesOf((from: number | null, limit) =>
            listEventsOf(admin, user, from, limit),
          ),
        }
        for (const [name, pages] of Object.entries(lists)) {
          await terminal.print(`,\n  "${name}": `)
          for await (const part of jsonListOf<unknown>(pages)) {
            await terminal.print(part.replaceAll('\n', '\n  ').trimEnd())
          }
        }
        await terminal.print('\n}\n')
        const sentence = `Exported what is stored about ${email}.`
        terminal.announce('admin.user_data_exported', { email }, sentence)
      }),
    )
}
