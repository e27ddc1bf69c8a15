// users export-data
import type { Command } from 'commander'
import type { Context } from '../context.ts'
import { parseEmail } from '../input/values.ts'
import {
  listEventsOf,
  listStoredSessions,
  recordExport,
  summarizeUser,
} from '../operations/user-data.ts'
import { requireUser } from '../operations/users.ts'
import { jsonListOf, jsonOf } from '../terminal/layout.ts'
import { withStore } from '../with-store.ts'

const BATCH = 1_000

export function addExportDataCommand(users: Command, context: Context): void {
  const { terminal } = context
  users
    .command('export-data')
    .description('print everything that is stored about a user, as JSON')
    .argument('<email>', 'email of the user', parseEmail)
    .action((email: string) =>
      withStore(context, async ({ admin, config: { budgets } }) => {
        const deps = { ...admin, budgets }
        const user = await requireUser(admin, email)
        await recordExport(admin, user)
        const summary = jsonOf(await summarizeUser(deps, user))
        await terminal.print(summary.replace(/\n}\n$/, ''))
        const lists = {
          sessions: allOf((after: string | null) => listStoredSessions(deps, user, after, BATCH)),
          auditEvents: allOf((before: number | null) => listEventsOf(deps, user, before, BATCH)),
        }
        for (const [name, batches] of Object.entries(lists)) {
          await terminal.print(`,\n  "${name}": `)
          for await (const part of jsonListOf<unknown>(batches)) {
            await terminal.print(part.replaceAll('\n', '\n  ').trimEnd())
          }
        }
        await terminal.print('\n}\n')
        const sentence = `Exported what is stored about ${email}.`
        terminal.announce('admin.user_data_exported', { email }, sentence)
      }),
    )
}

async function* allOf<T, Position>(
  read: (from: Position | null) => Promise<{ items: T[]; next: Position | null }>,
): AsyncGenerator<T[]> {
  for (let from: Position | null = null; ; ) {
    const { items, next } = await read(from)
    if (items.length > 0) yield items
    if (next === null) return
    from = next
  }
}
