// Imports users from records: checks and stores the rows, and collects the rejected ones.
import { randomUUID } from 'node:crypto'
import { setImmediate } from 'node:timers/promises'
import type { ImportedUser, ImportOptions } from '../../domain/import.ts'
import { Failure } from '../failures.ts'
import type { Moment } from '../input/times.ts'
import { type AdminDeps, changeNow } from '../operations/deps.ts'
import { checkNewPassword } from '../operations/new-password.ts'
import { type CheckedRow, type Secret, tryCheck } from './check-row.ts'
import type { FieldReader, SecretField } from './fields.ts'
import { hashOf } from './hash-of.ts'
import type { PasswordsFile } from './passwords-file.ts'
import type { Records, SourceRecord } from './records.ts'
import type { RejectedFile } from './rejected-file.ts'
import type { Left, Report } from './report.ts'

/** The more rows are sorted together, the fewer pages of the indexes a batch of neighbours changes. */
const WINDOW_ROWS = 100_000
/** One transaction. On SQLite it takes some 20 ms, for which logins wait. */
const BATCH_ROWS = 500
/** So many rows are hashed at a time: they are stored soon, and an interruption waits for these only. */
const HASHED_ROWS = 4

export type ImportCounts = Record<
  'added' | 'updated' | 'unchanged' | 'skipped' | 'rejected',
  number
>

export type TemporaryPasswords = {
  end: Moment
  /** Null for a dry run. */
  file: PasswordsFile | null
  /** Counts while the import runs. */
  given: number
}

type Import = ImportOptions & {
  records: Records
  fields: FieldReader
  secret: SecretField
  allowWeak: boolean | undefined
  maxCost: number
  /** Rows without a usable password are skipped, not rejected. */
  isSkipping: boolean
  /** What rows without a usable password get; null if nothing. Users that exist keep what they have. */
  temporary: TemporaryPasswords | null
  /** Null for a dry run. */
  rejectedFile: RejectedFile | null
  /** Count while the import runs, so that they are also known if it fails. */
  counts: ImportCounts
  report: Report
  /** `rows` were read so far. `isHashing`: the last ones get temporary passwords. */
  onProgress: (rows: number, isHashing: boolean) => void
}

/** Where a row was read. */
type Place = Pick<SourceRecord, 'line' | 'bytes'>
type WaitingRow = Place & { row: CheckedRow }
/** What a user has, or is to get. */
type OwnSecret = { storedHash: string } | { password: string }

/**
 * It is not atomic: each batch is a transaction. A further run finishes an import that was interrupted. Rows are sorted by
 * email before they are stored, and new ids too: neighbours in an index are then written together, which makes SQLite
 * several times faster, and parallel imports lock users in the same order.
 */
export async function importUsers(
  deps: AdminDeps,
  options: Import,
  signal: AbortSignal,
): Promise<void> {
  const { records, fields, secret, maxCost, temporary, rejectedFile, counts, report } = options
  /** The first line of each email and each id. */
  const firstLines = new Map<string, number>()
  const withHash: WaitingRow[] = []
  const toHash: WaitingRow[] = []
  /** The last full window, which is stored while the next one is read. */
  let storing: ReturnType<typeof store> = Promise.resolve([])
  let rows = 0
  let isHashing = false

  function stopIfInterrupted(): void {
    if (signal.aborted) throw new Failure('Interrupted.')
  }

  async function leave(left: Left, { line, bytes }: Place, reason: string): Promise<void> {
    counts[left]++
    report.add(left, line, reason)
    if (left === 'skipped') return
    await rejectedFile?.add(records.toRejected(bytes, reason), records.rejectedHeading)
  }

  async function take(record: SourceRecord): Promise<void> {
    const values = typeof record.row === 'string' ? record.row : fields.valuesOf(record.row)
    if (typeof values === 'string') return leave('rejected', record, values)
    const row = tryCheck(values, secret, maxCost, deps.clock())
    if (row instanceof Failure) {
      return leave('rejected', record, row.message.replace(/\.$/, ''))
    }
    if ('problem' in row.secret && !temporary) {
      return leave(options.isSkipping ? 'skipped' : 'rejected', record, row.secret.problem)
    }
    const hasHash = secret === 'passwordHash' && 'text' in row.secret
    const refusal = hasHash ? null : (await checkPassword(row)).refusal
    if (refusal) return leave('rejected', record, refusal.message.replace(/\.$/, ''))
    const { email, id } = row
    for (const [what, key] of [['email', email] as const, ['id', id] as const]) {
      const first = key && firstLines.get(key)
      if (first) return leave('rejected', record, `its ${what} is also in line ${first}`)
    }
    firstLines.set(email, record.line)
    if (id) firstLines.set(id, record.line)
    const window = hasHash ? withHash : toHash
    window.push({ line: record.line, bytes: record.bytes, row })
    if (toHash.length === HASHED_ROWS) await rejectOthers(store(toHash))
    if (withHash.length < WINDOW_ROWS) return
    await rejectOthers(storing)
    storing = store(withHash)
    storing.catch(() => {})
  }

  /** Checks the password of a row without a hash, which may have no password either. */
  async function checkPassword(row: CheckedRow) {
    if ('problem' in row.secret) return { refusal: null, isOverruled: false }
    return checkNewPassword(deps, { password: row.secret.text, allowWeak: options.allowWeak }, row)
  }

  /** Empties the window. Returns the rows whose email and id do not belong together. */
  async function store(window: WaitingRow[]): Promise<WaitingRow[]> {
    const batchRows = window === toHash ? HASHED_ROWS : BATCH_ROWS
    const waiting = window.splice(0)
    const own = await findOwnSecrets(waiting)
    const sorted = waiting.sort((a, b) => (a.row.email < b.row.email ? -1 : 1))
    const ids = sortedIds(sorted.length)
    const others: WaitingRow[] = []
    // PostgreSQL stores two batches while the next one is prepared.
    let beforeLast = Promise.resolve()
    let last = beforeLast
    try {
      for (let first = 0; first < sorted.length; first += batchRows) {
        const batch = sorted.slice(first, first + batchRows)
        const toId = (index: number) => ids[first + index] ?? randomUUID()
        const users =
          window === withHash
            ? batch.map(({ row }, index) => toUser(row, toId(index), textIn(row.secret)))
            : await Promise.all(
                batch.map(({ row }, index) => withNewHash(row, toId(index), own.get(row.email))),
              )
        await beforeLast
        // SQLite does not wait for anything: without this, a signal would not be noticed.
        await setImmediate()
        stopIfInterrupted()
        beforeLast = last
        last = storeBatch(batch, users, others)
        // It is awaited later; until then its failure is not unhandled.
        last.catch(() => {})
      }
      await Promise.all([beforeLast, last])
    } finally {
      await Promise.allSettled([beforeLast, last])
    }
    return others.sort((a, b) => a.line - b.line)
  }

  async function storeBatch(batch: WaitingRow[], users: ImportedUser[], others: WaitingRow[]) {
    const outcomes = await deps.store.imports.run(users, options, changeNow(deps))
    for (const outcome of outcomes) if (outcome !== 'other-id') counts[outcome]++
    others.push(...batch.filter((_, index) => outcomes[index] === 'other-id'))
    options.onProgress(rows, isHashing)
  }

  async function rejectOthers(stored: Promise<WaitingRow[]>): Promise<void> {
    for (const row of await stored) await leave('rejected', row, OTHER_ID)
  }

  /** Finds what the rows without a usable password have or get, in the order of the file. */
  async function findOwnSecrets(window: WaitingRow[]): Promise<Map<string, OwnSecret>> {
    const own = new Map<string, OwnSecret>()
    const emails: string[] = []
    const { users } = deps.store
    for (const { row } of window) {
      if ('text' in row.secret) continue
      const { email, id } = row
      // A row with the id of another user will be rejected, and must not be in the file of passwords.
      const found = (await users.findByEmail(email)) ?? (id && (await users.findById(id)))
      if (found) own.set(email, { storedHash: found.passwordHash })
      else emails.push(email)
    }
    isHashing = emails.length > 0
    if (!temporary || !isHashing) return own
    temporary.given += emails.length
    const passwords = (await temporary.file?.passwordsFor(emails)) ?? []
    for (const [i, email] of emails.entries()) own.set(email, { password: passwords[i] ?? '' })
    return own
  }

  async function withNewHash(
    row: CheckedRow,
    newId: string,
    own?: OwnSecret,
  ): Promise<ImportedUser> {
    if (own && 'storedHash' in own) return toUser(row, newId, own.storedHash)
    if (own && temporary) {
      const hash = options.isDryRun ? '' : await deps.hashPassword(own.password)
      return { ...toUser(row, newId, hash), temporaryUntil: temporary.end(deps.clock()) }
    }
    const hash = await hashOf(deps, row.email, textIn(row.secret), options)
    const { isOverruled: allowWeak } = await checkPassword(row)
    return { ...toUser(row, newId, hash), allowWeak }
  }

  try {
    for await (const part of records.parts) {
      stopIfInterrupted()
      rows += part.length
      for (const record of part) await take(record)
      options.onProgress(rows, isHashing)
    }
    if (rows === 0) throw new Failure('The file has no users.')
    await rejectOthers(storing)
    for (const window of [withHash, toHash]) await rejectOthers(store(window))
    await rejectedFile?.finish()
  } finally {
    // After a failure, too, the database must not be closed before it has ended.
    await storing.catch(() => {})
    try {
      await rejectedFile?.discard()
    } finally {
      await temporary?.file?.close()
    }
  }
}

const OTHER_ID = 'its email and its id belong to different users, or the user has another id'

/** Each id is copied: `randomUUID` joins its text from parts, and such texts take longer to sort. */
function sortedIds(length: number): string[] {
  return Array.from({ length }, () => Buffer.from(randomUUID()).toString()).sort()
}

function toUser(
  { id, secret: _, ...user }: CheckedRow,
  newId: string,
  passwordHash: string,
): ImportedUser {
  return { ...user, id: id ?? newId, isIdGiven: id !== null, passwordHash }
}

const textIn = (secret: Secret) => ('text' in secret ? secret.text : '')
