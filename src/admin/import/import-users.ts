// Imports users from records: checks and stores the rows, and collects the rejected ones.
import { randomUUID } from 'node:crypto'
import { setImmediate } from 'node:timers/promises'
import { canonicalHash, costOf } from '../../bcrypt/hash-text.ts'
import type { ImportedUser, ImportOptions } from '../../domain/import.ts'
import { Failure } from '../failures.ts'
import type { Moment } from '../input/times.ts'
import { type AdminDeps, changeNow } from '../operations/deps.ts'
import { checkNewPassword } from '../operations/new-password.ts'
import { type CheckedRow, checkRow, type Secret } from './check-row.ts'
import type { FieldReader, SecretField } from './fields.ts'
import type { PasswordsFile } from './passwords-file.ts'
import type { Records, SourceRecord } from './records.ts'
import type { RejectedFile } from './rejected-file.ts'
import type { Left, Report } from './report.ts'

/** The more rows are sorted together, the fewer pages of the indexes a batch of neighbours changes. */
const WINDOW_ROWS = 100_000
/** One transaction. On SQLite it takes some 20 ms, for which logins wait. */
const BATCH_ROWS = 500
/** As many as are hashed at a time: what was hashed is stored soon, and an interruption waits for these only. */
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

export type Import = ImportOptions & {
  records: Records
  fields: FieldReader
  secret: SecretField
  allowWeak: boolean | undefined
  maxCost: number
  /** Rows without a usable password are skipped, not rejected. */
  isSkipping: boolean
  /** For rows without a usable password; null if they get none. Users that exist keep what they have. */
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
 * Not atomic: one transaction per batch. A further run finishes an import that was interrupted. Rows are sorted by
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
  let rows = 0
  let isHashing = false

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
    const { id } = row
    // A copy: a part of the text of its line keeps that text in memory, and takes longer to compare.
    const email = Buffer.from(row.email).toString()
    for (const [what, key] of [['email', email] as const, ['id', id] as const]) {
      const first = key && firstLines.get(key)
      if (first) return leave('rejected', record, `its ${what} is also in line ${first}`)
    }
    firstLines.set(email, record.line)
    if (id) firstLines.set(id, record.line)
    const window = hasHash ? withHash : toHash
    window.push({ line: record.line, bytes: record.bytes, row: { ...row, email } })
    if (window.length === (hasHash ? WINDOW_ROWS : HASHED_ROWS)) await store(window)
  }

  /** Of a row without a hash, which may have no password either. */
  async function checkPassword(row: CheckedRow) {
    if ('problem' in row.secret) return { refusal: null, isOverruled: false }
    return checkNewPassword(deps, { password: row.secret.text, allowWeak: options.allowWeak }, row)
  }

  /** Empties the window. */
  async function store(window: WaitingRow[]): Promise<void> {
    const batchRows = window === toHash ? HASHED_ROWS : BATCH_ROWS
    const own = await findOwnSecrets(window)
    const sorted = window.splice(0).sort((a, b) => (a.row.email < b.row.email ? -1 : 1))
    const ids = sortedIds(sorted.length)
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
        if (signal.aborted) throw new Failure('Interrupted.')
        beforeLast = last
        last = storeBatch(batch, users, beforeLast)
        // It is awaited later; until then its failure is not unhandled.
        last.catch(() => {})
      }
    } finally {
      await last
    }
  }

  /** Reports the outcomes after those of the batch `before`. */
  async function storeBatch(
    batch: WaitingRow[],
    users: ImportedUser[],
    before: Promise<void>,
  ): Promise<void> {
    const outcomes = await deps.store.imports.run(users, options, changeNow(deps))
    await before
    for (const [index, outcome] of outcomes.entries()) {
      const row = batch[index]
      if (outcome !== 'other-id') counts[outcome]++
      else if (row) await leave('rejected', row, OTHER_ID)
    }
    options.onProgress(rows, isHashing)
  }

  /** Of rows without a usable password, in the order of the file. */
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
      rows += part.length
      for (const record of part) await take(record)
      options.onProgress(rows, isHashing)
    }
    if (rows === 0) throw new Failure('The file has no users.')
    for (const window of [withHash, toHash]) await store(window)
    await rejectedFile?.finish()
  } finally {
    await rejectedFile?.discard()
    await temporary?.file?.close()
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

/** In one piece each: `randomUUID` joins its texts from parts, which takes longer to sort. */
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
