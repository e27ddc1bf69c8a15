// users export
import { open, unlink } from 'node:fs/promises'
import { dirname } from 'node:path'
import { type Command, Option } from 'commander'
import { EXPORTED_FIELDS, REPORTED_FIELDS } from '../admin/import/columns.ts'
import { csvLine } from '../admin/import/csv.ts'
import { count } from '../admin/layout.ts'
import { changeNow } from '../admin/operations/deps.ts'
import { isLockedByAdministrator, type ListedUser } from '../domain/user.ts'
import { untilInterrupted } from '../service/signals.ts'
import { Failure } from '../system/failures.ts'
import { hasCode, messageOf, syncFolder } from '../system/files.ts'
import { type Context, pathFor } from './context.ts'
import { withStore } from './with-store.ts'

const PAGE = 1_000
const EXPOSED =
  'Warning: other users of this machine can read this file, which has the hashes of all passwords: chmod 600 it, or use --output.'

type Options = {
  format: 'csv' | 'ndjson'
  withHashes?: boolean
  output?: string
}
type Row = Record<string, unknown>
type Print = (text: string) => Promise<void>

export function addExportCommand(users: Command, context: Context): void {
  const { terminal } = context
  users
    .command('export')
    .description('print all users in a format that "users import" takes')
    .addOption(
      new Option('--format <format>', 'format').choices(['csv', 'ndjson']).default('ndjson'),
    )
    .option('--with-hashes', 'with the hashes of the passwords, which "users import" needs')
    .option('--output <file>', 'write to a new file that only you can read')
    .action(({ format, withHashes, output }: Options) => {
      return withStore(context, async ({ store, admin }) => {
        const secret = withHashes ? ['passwordHash'] : []
        const fields = [...EXPORTED_FIELDS, ...REPORTED_FIELDS, ...secret]
        const toCsv = (row: Row) => csvLine(Object.values(row).map(toText), ',')
        const now = admin.clock()
        const printAll = async (print: Print) => {
          if (format === 'csv') await print(`${fields.join()}\r\n`)
          let printed = 0
          for (let after: string | null = ''; after !== null; ) {
            const page = await store.users.list({}, { after, limit: PAGE }, now)
            const rows = page.users.map(user => toRow(user, fields, now))
            await print(rows.map(format === 'csv' ? toCsv : toJson).join(''))
            printed += rows.length
            after = page.next
          }
          return printed
        }
        if (output === undefined && withHashes && terminal.isOutputExposed()) terminal.say(EXPOSED)
        // Recorded first: an export that is interrupted has left too, and one that cannot be recorded must not.
        const facts = { withHashes: withHashes === true }
        const after = { users: await store.users.count(), ...facts }
        const event = { action: 'users.exported', target: 'users', targetId: null, after } as const
        await store.audit.record(changeNow(admin), [event])
        const written = await (output === undefined
          ? printAll(terminal.print)
          : writeNewFile(pathFor(context.env, output), printAll))
        terminal.announce(
          'admin.users_exported',
          { users: written, ...facts, ...(output !== undefined && { output }) },
          `Wrote ${count(written, 'user', 'users')}${output === undefined ? '' : ` to ${output}`}.`,
        )
      })
    })
}

/** Removes the file if it is not finished: a part of an export looks like a whole one. */
async function writeNewFile<T>(path: string, writeAll: (write: Print) => Promise<T>): Promise<T> {
  const reporting = <R>(operation: Promise<R>) =>
    operation.catch(error => {
      throw new Failure(
        hasCode(error, 'EEXIST')
          ? `${path} exists already: move it away, or choose another name.`
          : `${path} cannot be written: ${messageOf(error)}.`,
      )
    })
  const file = await reporting(open(path, 'wx', 0o600))
  try {
    return await untilInterrupted(async signal => {
      try {
        const result = await writeAll(text => {
          if (signal.aborted) throw new Failure('Interrupted.')
          return reporting(file.appendFile(text))
        })
        await reporting(file.sync())
        await reporting(syncFolder(dirname(path)))
        return result
      } finally {
        await reporting(file.close())
      }
    })
  } catch (error) {
    await unlink(path)
    throw error
  }
}

/** Locks of the throttle are left out: its counters stay behind too. */
function toRow(user: ListedUser, fields: string[], now: Date): Row {
  const isLocked = isLockedByAdministrator(user, now)
  const row: Row = { ...user, lockedUntil: isLocked ? user.lockedUntil : null }
  return Object.fromEntries(fields.map(field => [field, row[field]]))
}

const toJson = (row: Row) => `${JSON.stringify(row)}\n`

const toText = (value: unknown) =>
  value instanceof Date ? value.toISOString() : String(value ?? '')
