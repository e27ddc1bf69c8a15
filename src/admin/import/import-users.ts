// Imports users from records: checks and stores the rows, and collects the rejected ones.
import { randomUUID } from 'node:crypto'
import { setImmediate } from 'node:timers/promises'
import { canonicalHash, costOf } from '../../bcrypt/hash-text.ts'
import type { ImportedUser, ImportOptions } from '../../domain/import.ts'
import { Failure } from '../failures.ts'
import { type AdminDeps, changeNow } from '../operations/deps.ts'
import { checkNewPassword } from '../operations/new-password.ts'
import { type CheckedRow, checkRow, NoUsablePassword } from './check-row.ts'
import type { FieldReader, SecretField } from './fields.ts'
import type { Records, SourceRecord } from './records.ts'
import type { RejectedFile } from './rejected-file.ts'
import type { Left, Report } from './report.ts'

/** The more rows are sorted together, the fewer pages of the indexes a batch of neighbours changes. */
const WINDOW_ROWS = 100_000
/** One transaction. On SQLite it takes some 20 ms, for which logins wait. */
const BATCH_ROWS = 500
/** As many as are hashed at a time: what was hashed is stored soon, and an interruption waits for these only. */
const HASHED_BATCH_ROWS = 4

export type ImportCounts = Record<
  'added' | 'updated' | 'unchanged' | 'skipped' | 'rejected',
  number
>

export type Import = ImportOptions & {
  records: Records
  fields: FieldReader
  secret: SecretField
  allowWeak: boolean | undefined
  maxCost: number
  /** Rows without a usable password are skipped, not rejected. */
  isSkipping: boolean
  /** Null for a dry run. */
  rejectedFile: RejectedFile | null
  /** Count while the import runs, so that they are also known if it fails. */
  counts: ImportCounts
  report: Report
  /** `rows` were read so far. */
  onProgress: (rows: number) => void
}

/** Where a row was read. */
type Place = Pick<SourceRecord, 'line' | 'bytes'>
type WaitingRow = Place & { row: CheckedRow }

/**
 * Not atomic: one transaction per batch. A further run finishes an import that was interrupted. Rows are sorted by
 * email before they are stored, and new ids too: neighbours in an index are then written together, which makes SQLite
 * several times faster, and parallel imports lock users in the same order.
 */
export async function importUsers(
  deps: AdminDeps,
  options: Import,
  signal: AbortSignal,
): Promise<void> {
  const { records, fields, secret, maxCost, rejectedFile, counts, report, onProgress } = options
  const batchRows = secret === 'password' ? HASHED_BATCH_ROWS : BATCH_ROWS
  const windowRows = secret === 'password' ? HASHED_BATCH_ROWS : WINDOW_ROWS
  /** The first line of each email and each id. */
  const firstLines = new Map<string, number>()
  let window: WaitingRow[] = []
  let rows = 0

  async function leave(left: Left, { line, bytes }: Place, reason: string): Promise<void> {
    counts[left]++
    report.add(left, line, reason)
    if (left === 'skipped') return
    await rejectedFile?.add(records.toRejected(bytes, reason), records.rejectedHeading)
  }

  async function take(record: SourceRecord): Promise<void> {
    rows++
    const values = typeof record.row === 'string' ? record.row : fields.valuesOf(record.row)
    if (typeof values === 'string') return leave('rejected', record, values)
    const row = tryCheck(values, secret, maxCost, deps.clock())
    if (row instanceof Failure) {
      const isSkipped = options.isSkipping && row instanceof NoUsablePassword
      return leave(isSkipped ? 'skipped' : 'rejected', record, row.message.replace(/\.$/, ''))
    }
    const { refusal } = await checkSecret(row)
    if (refusal) return leave('rejected', record, refusal.message.replace(/\.$/, ''))
    for (const [what, key] of Object.entries({ email: row.email, id: row.id })) {
      const first = key && firstLines.get(key)
      if (first) return leave('rejected', record, `its ${what} is also in line ${first}`)
    }
    // A copy: the email is a part of the text of its line, which would stay in memory with it.
    firstLines.set(Buffer.from(row.email).toString(), record.line)
    if (row.id) firstLines.set(row.id, record.line)
    window.push({ line: record.line, bytes: record.bytes, row })
    if (window.length === windowRows) await storeWindow()
  }

  /** A hash has no password to check. */
  async function checkSecret(row: CheckedRow) {
    if (secret === 'passwordHash') return { refusal: null, isOverruled: false }
    return checkNewPassword(deps, { password: row.secret, allowWeak: options.allowWeak }, row)
  }

  async function storeWindow(): Promise<void> {
    const sorted = window.sort((a, b) => (a.row.email < b.row.email ? -1 : 1))
    const ids = Array.from(sorted, () => randomUUID()).sort()
    window = []
    // PostgreSQL stores a batch while the next one is prepared.
    let storing = Promise.resolve()
    for (let first = 0; first < sorted.length; first += batchRows) {
      const batch = sorted.slice(first, first + batchRows)
      const users = await Promise.all(
        batch.map(({ row }, index) => toUser(row, ids[first + index] ?? randomUUID())),
      )
      await storing
      // SQLite does not wait for anything: without this, a signal would not be noticed.
      await setImmediate()
      if (signal.aborted) throw new Failure('Interrupted.')
      storing = storeBatch(batch, users)
      // It is awaited before the next one; until then its failure is not unhandled.
      storing.catch(() => {})
    }
    await storing
  }

  async function storeBatch(batch: WaitingRow[], users: ImportedUser[]): Promise<void> {
    const outcomes = await deps.store.imports.run(users, options, changeNow(deps))
    for (const [index, outcome] of outcomes.entries()) {
      const row = batch[index]
      if (outcome !== 'other-id') counts[outcome]++
      else if (row) await leave('rejected', row, OTHER_ID)
    }
    onProgress(rows)
  }

  async function toUser(row: CheckedRow, newId: string): Promise<ImportedUser> {
    const { id, secret: given, ...user } = row
    const passwordHash =
      secret === 'passwordHash' ? given : await hashOf(deps, row.email, given, options)
    const { isOverruled: allowWeak } = await checkSecret(row)
    return { ...user, id: id ?? newId, isIdGiven: id !== null, passwordHash, allowWeak }
  }

  try {
    for await (const part of records.parts) {
      for (const record of part) await take(record)
      onProgress(rows)
    }
    if (rows === 0) throw new Failure('The file has no users.')
    await storeWindow()
    await rejectedFile?.finish()
  } finally {
    await rejectedFile?.discard()
  }
}

const OTHER_ID = 'its email and its id belong to different users, or the user has another id'

/** The checked row, or what is wrong with it. */
function tryCheck(...row: Parameters<typeof checkRow>): CheckedRow | Failure {
  try {
    return checkRow(...row)
  } catch (error) {
    if (error instanceof Failure) return error
    throw error
  }
}

/** The stored hash, if the user exists and needs no other one. A dry run computes no new one. */
async function hashOf(
  { store, hashPassword }: AdminDeps,
  email: string,
  password: string,
  { mayUpdate, isDryRun }: ImportOptions,
): Promise<string> {
  const stored = (await store.users.findByEmail(email))?.passwordHash
  if (stored && (!mayUpdate || (await isHashOf(stored, password)))) return stored
  return isDryRun ? '' : hashPassword(password)
}

async function isHashOf(stored: string, password: string): Promise<boolean> {
  if (costOf(stored) === null) return false
  const { compare } = await import('bcrypt')
  return compare(password, canonicalHash(stored))
}
