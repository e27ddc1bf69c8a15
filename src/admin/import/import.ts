// users import
import { existsSync } from 'node:fs'
import { setFlagsFromString } from 'node:v8'
import { type Command, Option } from 'commander'
import { untilInterrupted } from '../../signals.ts'
import type { Context, JsonOption } from '../context.ts'
import { Failure, WrongUse } from '../failures.ts'
import type { Moment } from '../input/times.ts'
import { DEFAULT_END, parseValid } from '../operations/temporary-password.ts'
import { count, jsonOf } from '../terminal/layout.ts'
import { withMigratedStore, withStore } from '../with-store.ts'
import { ENCODINGS } from './encoding.ts'
import { type ColumnMap, IMPORTED_FIELDS } from './fields.ts'
import { FORMATS } from './formats.ts'
import { type ImportCounts, importUsers, type TemporaryPasswords } from './import-users.ts'
import { type LayoutOptions, openLayout } from './layout.ts'
import { PasswordsFile } from './passwords-file.ts'
import { showProgress } from './progress.ts'
import { RejectedFile } from './rejected-file.ts'
import { Report } from './report.ts'
import { openFile, type Source, standardInput } from './source.ts'

const STDIN = '-'
const OWN_FORMATS = ['csv', 'ndjson']

type Options = JsonOption &
  LayoutOptions & {
    valid?: Moment
    allowWeak?: boolean
    dryRun?: boolean
    update?: boolean
  }

export function addImportCommand(users: Command, context: Context): void {
  users
    .command('import')
    .description('add the users of a file, with bcrypt hashes of their passwords')
    .argument('<file>', 'CSV, NDJSON or JSON; - for standard input')
    .addOption(
      new Option('--from <format>', 'what the file is, if the content does not tell it').choices([
        ...Object.keys(FORMATS).toSorted(),
        ...OWN_FORMATS,
      ]),
    )
    .addOption(new Option('--format <format>').choices(OWN_FORMATS).hideHelp())
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
      'with --hash-passwords: also take passwords that are short, common or personal',
    )
    .option('--json', 'print how many users were added, updated … as JSON')
    .addHelpText(
      'after',
      `
Fields: email, name, passwordHash (with --hash-passwords: password); optional: role, id, isActive,
lockedUntil, temporaryUntil, createdAt. Rejected rows are written to FILE.rejected with their
reasons, temporary passwords to FILE.passwords. Recipes for other systems: docs/migrating.md.`,
    )
    .action(async (file: string, options: Options) => {
      if (options.valid && options.withoutPasswords !== 'temporary') {
        throw new WrongUse('--valid is for temporary passwords: add --without-passwords temporary.')
      }
      const path = file === STDIN ? 'stdin' : file
      const rejectedPath = `${path}.rejected`
      if (file === STDIN && !options.dryRun && existsSync(rejectedPath)) {
        throw new Failure(
          `${rejectedPath} may have rows of an earlier import: move it away and try again.`,
        )
      }
      const source = file === STDIN ? standardInput(context.terminal.stdin) : await openFile(file)
      try {
        await importFrom(context, source, path, options)
      } finally {
        await source.close()
      }
    })
}

function parseMap(typed: string, previous: ColumnMap = {}): ColumnMap {
  const [, column = '', field = ''] = /^(.+)=(.*)$/.exec(typed) ?? []
  if (column !== '' && ['', ...IMPORTED_FIELDS].includes(field)) {
    return { ...previous, [column]: field }
  }
  throw new WrongUse(
    `--map takes COLUMN=FIELD, with one of the fields ${IMPORTED_FIELDS.join(', ')}; COLUMN= leaves a column out.`,
  )
}

function parseDelimiter(typed: string): string {
  const delimiter = typed === '\\t' || typed === 'tab' ? '\t' : typed
  if (delimiter.length === 1 && delimiter !== '"') return delimiter
  throw new WrongUse('--delimiter takes one character, or "tab".')
}

async function importFrom(
  context: Context,
  source: Source,
  path: string,
  options: Options,
): Promise<void> {
  const { terminal } = context
  // By default V8 waits for three times the memory in use before it cleans up, and is hardly faster for it.
  setFlagsFromString('--heap-growing-percent=100')
  const { dryRun: isDryRun = false, update: mayUpdate = false, valid = DEFAULT_END, json } = options
  const rejectedPath = `${path}.rejected`
  const passwordsPath = `${path}.passwords`
  const temporary: TemporaryPasswords | null =
    options.withoutPasswords === 'temporary'
      ? { end: valid, file: isDryRun ? null : new PasswordsFile(passwordsPath), given: 0 }
      : null
  const counts: ImportCounts = { added: 0, updated: 0, unchanged: 0, skipped: 0, rejected: 0 }
  const report = new Report()
  const progress = showProgress(terminal, counts, source.totalBytes)
  let unit = 'line'
  // A dry run must not create tables either.
  const open = isDryRun ? withStore : withMigratedStore
  await open(context, ({ admin, config }) =>
    untilInterrupted(async signal => {
      // Refuses a wrong --valid before the first hash.
      temporary?.end(admin.clock())
      const chunks = progress.counting(source.chunks(signal))
      const { sentence, ...layout } = await openLayout(source.name, chunks, options)
      unit = layout.records.container === 'json' ? 'user' : 'line'
      terminal.say(sentence)
      await importUsers(
        admin,
        {
          ...layout,
          allowWeak: options.allowWeak,
          maxCost: config.bcryptCost,
          isSkipping: options.withoutPasswords === 'skip',
          temporary,
          mayUpdate,
          isDryRun,
          rejectedFile: isDryRun ? null : new RejectedFile(rejectedPath),
          counts,
          report,
          onProgress: progress.show,
        },
        signal,
      )
    }).catch(error => {
      const { added, updated, unchanged } = counts
      if (!isDryRun && added + updated + unchanged > 0) {
        terminal.say(
          `So far ${summaryOf(counts)}. Users that were stored stay; run the command again to continue.`,
        )
      }
      throw error
    }),
  )
  for (const sentence of report.sentences(unit)) terminal.say(sentence)
  const rejected = counts.rejected > 0 && !isDryRun ? ` Rejected rows are in ${rejectedPath}.` : ''
  const given = temporary?.given ? passwordsSentence(temporary.given, passwordsPath, isDryRun) : ''
  const numbers = { ...counts, ...(temporary && { temporary: temporary.given }) }
  terminal.announce(
    'admin.users_imported',
    { source: source.name, isDryRun, ...numbers },
    `${isDryRun ? 'Nothing was written. An import would give, for' : 'Imported'} ${source.name}: ${summaryOf(counts)}.${rejected}${given}`,
  )
  if (json) {
    await terminal.print(jsonOf(numbers)).catch(error => {
      // A reader that has closed the output must not hide that rows were rejected.
      if (counts.rejected === 0) throw error
    })
  }
  if (await source.hasChanged()) {
    throw new Failure(`${source.name} changed while it was read: run the command again.`)
  }
  if (counts.rejected > 0) throw new Failure()
}

function summaryOf({ added, updated, unchanged, skipped, rejected }: ImportCounts): string {
  return `${added} added, ${updated} updated, ${unchanged} unchanged, ${skipped} skipped, ${rejected} rejected`
}

function passwordsSentence(given: number, path: string, isDryRun: boolean): string {
  const users = count(given, 'user', 'users')
  return isDryRun
    ? ` ${users} would get a temporary password, in ${path}.`
    : ` ${users} got a temporary password, in ${path}: hand them over, then delete the file.`
}
