// users export
import { type Command, Option } from 'commander'
import { isLockedByAdministrator, type User } from '../../domain/user.ts'
import type { Context } from '../context.ts'
import { withStore } from '../with-store.ts'
import { EXPORTED_FIELDS, type Format } from './records.ts'

const PAGE = 1_000

type Options = { format: Format; withHashes?: boolean }

export function addExportCommand(users: Command, context: Context): void {
  users
    .command('export')
    .description('print all users in a format that "users import" takes')
    .addOption(
      new Option('--format <format>', 'format').choices(['csv', 'ndjson']).default('ndjson'),
    )
    .option('--with-hashes', 'with the hashes of the passwords, which "users import" needs')
    .action(({ format, withHashes }: Options) =>
      withStore(context, async ({ store, clock }) => {
        const fields = [...EXPORTED_FIELDS, ...(withHashes ? ['passwordHash'] : [])]
        const { print } = context.terminal
        if (format === 'csv') await print(`${fields.join()}\r\n`)
        const now = clock()
        for (let after: string | null = ''; after !== null; ) {
          const page = await store.listUsers({}, { after, limit: PAGE }, now)
          const rows = page.users.map(user => toRow(user, fields, now))
          await print(rows.map(format === 'csv' ? toCsv : toJson).join(''))
          after = page.next
        }
      }),
    )
}

/** Locks of the throttle are left out: its counters stay behind too. */
function toRow(user: User, fields: string[], now: Date): Record<string, unknown> {
  const isLocked = isLockedByAdministrator(user, now)
  const row: Record<string, unknown> = { ...user, lockedUntil: isLocked ? user.lockedUntil : null }
  return Object.fromEntries(fields.map(field => [field, row[field]]))
}

const toJson = (row: Record<string, unknown>) => `${JSON.stringify(row)}\n`

function toCsv(row: Record<string, unknown>): string {
  return `${Object.values(row).map(toField).join()}\r\n`
}

function toField(value: unknown): string {
  const text = value instanceof Date ? value.toISOString() : String(value ?? '')
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text
}
