// users import
import { existsSync } from 'node:fs'
import { type Command, Option } from 'commander'
import { untilInterrupted } from '../../signals.ts'
import type { Context, JsonOption } from '../context.ts'
import { Failure, WrongUse } from '../failures.ts'
import { jsonOf } from '../terminal/layout.ts'
import { createProgress } from '../terminal/terminal.ts'
import { withMigratedStore, withStore } from '../with-store.ts'
import { type ImportCounts, importUsers } from './import-users.ts'
import type { Format } from './records.ts'
import { RejectedFile } from './rejected-file.ts'
import { openFile, type Source, standardInput } from './source.ts'

const STDIN = '-'
/** More are counted only. */
const REPORTED_ROWS = 1_000
const BAR_WIDTH = 20

type Options = JsonOption & {
  format?: Format
  dryRun?: boolean
  update?: boolean
  hashPasswords?: boolean
}

export function addImportCommand(users: Command, context: Context): void {
  users
    .command('import')
    .description('add the users of a CSV or NDJSON file, with bcrypt hashes of their passwords')
    .argument('<file>', 'a file that ends with .csv or .ndjson, or - for standard input')
    .addOption(
      new Option('--format <format>', 'format, if the name of the file does not tell it').choices([
        'csv',
        'ndjson',
      ]),
    )
    .option('--dry-run', 'check all rows, also against the database, and write nothing')
    .option('--update', 'also change users that exist, where the file differs')
    .option('--hash-passwords', 'the file has passwords in plain text; store their hashes')
    .option('--json', 'print how many users were added, updated, unchanged and rejected as JSON')
    .addHelpText(
      'after',
      `
Fields: email, name, passwordHash (with --hash-passwords: password); optional: role, id, isActive,
lockedUntil, temporaryUntil, createdAt. Rejected rows are reported with their lines and written to FILE.rejected.`,
    )
    .action(async (file: string, options: Options) => {
      const format = options.format ?? formatOf(file)
      const rejectedPath = `${file === STDIN ? 'stdin' : file}.rejected`
      if (file === STDIN && !options.dryRun && existsSync(rejectedPath)) {
        throw new Failure(
          `${rejectedPath} may have rows of an earlier import: move it away and try again.`,
        )
      }
      const source = file === STDIN ? standardInput(context.terminal.stdin) : await openFile(file)
      try {
        await importFrom(context, source, format, rejectedPath, options)
      } finally {
        await source.close()
      }
    })
}

/** Rejected rows can be mended and imported from their file. */
function formatOf(file: string): Format {
  if (file === STDIN) return 'ndjson'
  const ending = /\.(csv|ndjson)(\.rejected)*$/i.exec(file)?.[1]?.toLowerCase()
  if (ending === 'csv' || ending === 'ndjson') return ending
  throw new WrongUse(`${file} ends neither with .csv nor with .ndjson: add --format.`)
}

async function importFrom(
  context: Context,
  source: Source,
  format: Format,
  rejectedPath: string,
  { dryRun: isDryRun = false, update: mayUpdate = false, hashPasswords, json }: Options,
): Promise<void> {
  const { terminal } = context
  const counts: ImportCounts = { added: 0, updated: 0, unchanged: 0, rejected: 0 }
  // A dry run must not create tables either.
  const open = isDryRun ? withStore : withMigratedStore
  await open(context, ({ admin, config }) =>
    untilInterrupted(signal =>
      importUsers(
        admin,
        {
          source,
          format,
          secret: hashPasswords ? 'password' : 'passwordHash',
          maxCost: config.bcryptCost,
          mayUpdate,
          isDryRun,
          rejectedFile: isDryRun ? null : new RejectedFile(rejectedPath),
          counts,
          onRejected(line, problem) {
            if (counts.rejected <= REPORTED_ROWS) terminal.say(`Line ${line}: ${problem}.`)
          },
          onProgress: showProgress(context, counts, source.totalBytes),
        },
        signal,
      ),
    ).catch(error => {
      const { added, updated, unchanged } = counts
      if (!isDryRun && added + updated + unchanged > 0) {
        terminal.say(
          `So far ${summaryOf(counts)}. Users that were stored stay; run the command again to continue.`,
        )
      }
      throw error
    }),
  )
  if (counts.rejected > REPORTED_ROWS) {
    terminal.say(`${counts.rejected - REPORTED_ROWS} more lines were rejected.`)
  }
  const where = counts.rejected > 0 && !isDryRun ? ` Rejected rows are in ${rejectedPath}.` : ''
  terminal.announce(
    'admin.users_imported',
    { source: source.name, isDryRun, ...counts },
    `${isDryRun ? 'Nothing was written. An import would give, for' : 'Imported'} ${source.name}: ${summaryOf(counts)}.${where}`,
  )
  if (json) {
    await terminal.print(jsonOf(counts)).catch(error => {
      // A reader that has closed the output must not hide that rows were rejected.
      if (counts.rejected === 0) throw error
    })
  }
  if (await source.hasChanged()) {
    throw new Failure(`${source.name} changed while it was read: run the command again.`)
  }
  if (counts.rejected > 0) throw new Failure()
}

function summaryOf({ added, updated, unchanged, rejected }: ImportCounts): string {
  return `${added} added, ${updated} updated, ${unchanged} unchanged, ${rejected} rejected`
}

function showProgress({ terminal }: Context, counts: ImportCounts, totalBytes: number | null) {
  const show = createProgress(terminal)
  const startedMs = performance.now()
  return (bytes: number) => {
    const rows = Object.values(counts).reduce((sum, count) => sum + count)
    const perSecond = Math.round(rows / ((performance.now() - startedMs) / 1_000))
    const speed = `${rows.toLocaleString('en')} rows, ${perSecond.toLocaleString('en')} per second`
    if (totalBytes === null) return show(speed)
    const share = Math.min(1, bytes / totalBytes)
    const bar = '#'.repeat(Math.floor(share * BAR_WIDTH)).padEnd(BAR_WIDTH, '.')
    show(`[${bar}] ${Math.floor(share * 100)} % · ${speed}`)
  }
}
