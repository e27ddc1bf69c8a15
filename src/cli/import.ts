// users import
import { existsSync } from 'node:fs'
import { type Command, Option } from 'commander'
import {
  type ColumnMap,
  type ColumnOptions,
  MAPPED_FIELDS,
  readColumns,
} from '../admin/import/columns.ts'
import { FORMATS } from '../admin/import/formats.ts'
import { importUsers } from '../admin/import/import-users.ts'
import { createProgress } from '../admin/import/progress.ts'
import { openRecords, type Records } from '../admin/import/records.ts'
import { Report } from '../admin/import/report.ts'
import { ENCODINGS, readSource, type Source, type TextEncoding } from '../admin/import/source.ts'
import type { Moment } from '../admin/input/times.ts'
import { count, jsonOf } from '../admin/layout.ts'
import { DEFAULT_END, parseValid } from '../admin/operations/temporary-password.ts'
import { untilInterrupted } from '../service/signals.ts'
import { withChangeLock } from '../storage/file-lock.ts'
import { Failure, WrongUse } from '../system/failures.ts'
import { type Context, type JsonOption, pathFor } from './context.ts'
import type { Terminal } from './terminal.ts'
import { type OpenedForAdmin, withMigratedStore, withStore } from './with-store.ts'

const STDIN = '-'
const DELIMITER_NAMES: Record<string, string> = { ',': 'commas', ';': 'semicolons', '\t': 'tabs' }

type Options = JsonOption &
  ColumnOptions & {
    delimiter?: string
    encoding?: TextEncoding
    valid?: Moment
    allowWeak?: boolean
    dryRun?: boolean
    update?: boolean
  }

export function addImportCommand(users: Command, context: Context): void {
  users
    .command('import')
    .description('add the users of a file, with bcrypt hashes of their passwords')
    .argument('<file>', 'CSV, NDJSON or JSON of at most 256 MiB; - for standard input')
    .addOption(
      new Option('--from <format>', 'what the file is, if the content does not tell it').choices([
        ...Object.keys(FORMATS).toSorted(),
        ...['csv', 'ndjson'],
      ]),
    )
    .option('--map <column=field>', 'take a column as this field; may be repeated', parseMap)
    .option('--ignore-unknown', 'leave out columns that are not fields')
    .option('--delimiter <character>', 'what separates the fields of CSV', parseDelimiter)
    .addOption(new Option('--encoding <encoding>', 'encoding of the file').choices(ENCODINGS))
    .addOption(
      new Option(
        '--without-passwords <what>',
        'users without a bcrypt hash: skip them, or give them temporary passwords',
      ).choices(['skip', 'temporary']),
    )
    .option(
      '--valid <time>',
      'how long each temporary password is valid: 1h to 30d (default: 72h)',
      parseValid('--valid'),
    )
    .option('--dry-run', 'check all rows, also against the database, and write nothing')
    .option('--update', 'also change users that exist, where the file differs')
    .option('--hash-passwords', 'the file has passwords in plain text; store their hashes')
    .option(
      '--allow-weak',
      'with --hash-passwords: also take passwords of 8 characters or more that break a rule',
    )
    .option('--json', 'print how many users were added, updated … as JSON')
    .addHelpText(
      'after',
      `
Fields: email, name, passwordHash (with --hash-passwords: password); optional: role, id, isActive
(or the opposite: --map disabled=!isActive), lockedUntil, temporaryUntil, createdAt. Rejected rows
are written to FILE.rejected with their reasons, temporary passwords to FILE.passwords. Recipes for
other systems: docs/migrating.md.`,
    )
    .action(async (file: string, options: Options) => {
      if (options.valid && options.withoutPasswords !== 'temporary') {
        throw new WrongUse('--valid is for temporary passwords: add --without-passwords temporary.')
      }
      if (file === STDIN && !options.dryRun && existsSync(pathFor(context.env, 'stdin.rejected'))) {
        throw new Failure(
          'stdin.rejected may have rows of an earlier import: move it away and try again.',
        )
      }
      await untilInterrupted(signal => importFrom(context, file, options, signal))
    })
}

function parseMap(typed: string, previous: ColumnMap = {}): ColumnMap {
  const [, column = '', field = ''] = /^(.+)=(.*)$/.exec(typed) ?? []
  if (column !== '' && ['', ...MAPPED_FIELDS].includes(field)) {
    return { ...previous, [column]: field }
  }
  throw new WrongUse(
    `--map takes COLUMN=FIELD, with one of the fields ${MAPPED_FIELDS.join(', ')}; COLUMN= leaves a column out.`,
  )
}

function parseDelimiter(typed: string): string {
  const delimiter = typed === '\\t' || typed === 'tab' ? '\t' : typed
  if (delimiter.length === 1 && delimiter !== '"') return delimiter
  throw new WrongUse('--delimiter takes one character, or "tab".')
}

async function importFrom(
  context: Context,
  file: string,
  options: Options,
  signal: AbortSignal,
): Promise<void> {
  const { terminal, env } = context
  const { dryRun: isDryRun = false, update: mayUpdate = false, valid: end = DEFAULT_END } = options
  const name = file === STDIN ? 'standard input' : file
  const path = pathFor(env, file === STDIN ? 'stdin' : file)
  const input = file === STDIN ? terminal.stdin : path
  const source = await readSource(name, input, options.encoding, signal)
  const container = options.from === 'csv' || options.from === 'ndjson' ? options.from : undefined
  const records = openRecords(name, source, { container, delimiter: options.delimiter })
  const columns = readColumns(name, records, options)
  if (records.total === 0) throw new Failure(`${name} has no users.`)
  const isTemporary = options.withoutPasswords === 'temporary'
  const temporary = isTemporary ? { end, path: `${path}.passwords` } : null
  const report = new Report()
  const importInto = async ({ admin, config, where }: OpenedForAdmin) => {
    // Refuses a wrong --valid before the first hash.
    temporary?.end(admin.clock())
    terminal.say(`${describe(name, records, columns.title, source)} into ${where}.`)
    const told = sayIgnored(terminal, columns.ignored)
    const progress = createProgress(records.total, Date.now)
    await importUsers(
      admin,
      {
        ...{ records, columns, temporary, report, mayUpdate, isDryRun },
        ...{ allowWeak: options.allowWeak, maxCost: config.bcryptCost },
        isSkipping: options.withoutPasswords === 'skip',
        onProgress: isHashing => terminal.progress(progress(report.done, isHashing)),
      },
      signal,
    ).catch(error => {
      const { added, updated, unchanged } = report.counts
      const advice = 'Users that were stored stay; run the command again to continue.'
      if (!isDryRun && added + updated + unchanged > 0) terminal.say(`So far ${report}. ${advice}`)
      throw error
    })
    sayIgnored(terminal, columns.ignored, told)
    if (!isDryRun) await report.writeRejected(`${path}.rejected`, records)
  }
  // A dry run must not create tables either.
  const run = () =>
    isDryRun ? withStore(context, importInto, 'empty') : withMigratedStore(context, importInto)
  await (temporary && !isDryRun ? withChangeLock(temporary.path, run) : run())
  for (const sentence of report.sentences(records.container === 'json' ? 'user' : 'line')) {
    terminal.say(sentence)
  }
  const numbers = { ...report.counts, ...(isTemporary && { temporary: report.temporary }) }
  terminal.announce(
    'admin.users_imported',
    { source: name, isDryRun, ...numbers },
    summaryOf(name, path, report, isDryRun),
  )
  const { rejected } = report.counts
  if (options.json) {
    await terminal.print(jsonOf(numbers)).catch(error => {
      // A reader that has closed the output must not hide that rows were rejected.
      if (rejected === 0) throw error
    })
  }
  if (rejected > 0) throw new Failure()
}

function describe(
  name: string,
  { container, delimiter }: Records,
  title: string | undefined,
  { encoding }: Source,
): string {
  const parts = [
    `Reading ${name} as ${container.toUpperCase()}`,
    title && `from ${title}`,
    delimiter && `with ${DELIMITER_NAMES[delimiter] ?? `"${delimiter}"`}`,
    encoding !== 'utf8' && `in ${encoding}`,
  ]
  return parts.filter(Boolean).join(' ')
}

/** Returns how many were told. */
function sayIgnored(terminal: Terminal, ignored: Set<string>, told = 0): number {
  const names = [...ignored].slice(told)
  if (names.length > 0) terminal.say(`These columns are not taken: ${names.join(', ')}.`)
  return ignored.size
}

function summaryOf(name: string, path: string, report: Report, isDryRun: boolean): string {
  const { counts, temporary } = report
  const [done, got, advice] = isDryRun
    ? ['Nothing was written. An import would give, for', 'would get', '']
    : ['Imported', 'got', ': hand them over, then delete the file']
  const users = count(temporary, 'user', 'users')
  const parts = [`${done} ${name}: ${report}.`]
  if (counts.rejected > 0 && !isDryRun) parts.push(`Rejected rows are in ${path}.rejected.`)
  if (temporary > 0)
    parts.push(`${users} ${got} a temporary password, in ${path}.passwords${advice}.`)
  return parts.join(' ')
}
