// Imports users from records: checks and stores the rows, and collects the rejected ones.
import { randomUUID } from 'node:crypto'
import { setImmediate } from 'node:timers/promises'
import { canonicalHash, costOf } from '../../bcrypt/hash-text.ts'
import type { ImportedUser, ImportOptions } from '../../domain/import.ts'
import { Failure } from '../../system/failures.ts'
import type { Moment } from '../input/times.ts'
import { type AdminDeps, changeNow } from '../operations/deps.ts'
import { checkNewPassword } from '../operations/new-password.ts'
import { type CheckedRow, checkRow } from './check-row.ts'
import type { readColumns } from './columns.ts'
import type { Records } from './records.ts'
import type { Report } from './report.ts'
import { passwordsFor } from './temporary-passwords.ts'

/** The more rows are sorted together, the fewer pages of the indexes a batch of neighbours changes. */
const WINDOW_ROWS = 100_000
/** One transaction. On SQLite it takes some 20 ms, for which logins wait. */
const BATCH_ROWS = 500
/** So many rows are hashed at a time: they are stored soon, and an interruption waits for these only. */
const HASHED_ROWS = 4
/** PostgreSQL stores two batches while the next one is prepared. */
const PARALLEL_BATCHES = 2
/** Between them, answers of PostgreSQL are read and signals are noticed. */
const PAUSE_LINES = 500

type Import = ImportOptions & {
  records: Records
  columns: ReturnType<typeof readColumns>
  allowWeak: boolean | undefined
  maxCost: number
  /** Rows without a usable password are skipped, not rejected. */
  isSkipping: boolean
  /** What rows without a usable password get; null if nothing. Users that exist keep what they have. */
  temporary: { end: Moment; path: string } | null
  /** Counts while the import runs, so that it is also known if it fails. */
  report: Report
  /** `isHashing`: the last rows got temporary passwords. */
  onProgress: (isHashing: boolean) => void
}

type WaitingRow = { line: number; row: CheckedRow }

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
  const { records, columns, temporary, report } = options
  const { users, imports } = deps.store
  /** The first line of each email and each id. */
  const firstLines = new Map<string, number>()

  /** The checked row; null if it is skipped. Throws a Failure that says why it is rejected. */
  async function check(line: number, text: string): Promise<CheckedRow | null> {
    const read = records.read(text)
    const values = typeof read === 'string' ? read : columns.valuesOf(read)
    if (typeof values === 'string') throw new Failure(values)
    const row = checkRow(values, columns.secret, options.maxCost, deps.clock())
    const { email, id, secret } = row
    if ('problem' in secret && !temporary) {
      if (!options.isSkipping) throw new Failure(secret.problem)
      report.skip(line, secret.problem)
      return null
    }
    if ('password' in secret) {
      const { refusal } = await checkPassword(row, secret)
      if (refusal) throw refusal
    }
    const [emailLine, idLine] = [firstLines.get(email), id && firstLines.get(id)]
    if (emailLine) throw new Failure(`its email is also in line ${emailLine}`)
    if (idLine) throw new Failure(`its id is also in line ${idLine}`)
    firstLines.set(email, line)
    if (id) firstLines.set(id, line)
    return row
  }

  function checkPassword(owner: CheckedRow, { password }: { password: string }) {
    return checkNewPassword(deps, { password, allowWeak: options.allowWeak }, owner)
  }

  async function store(window: WaitingRow[]): Promise<void> {
    const toHash = window.filter(({ row }) => !('hash' in row.secret))
    const passwords = temporary ? await findPasswords(toHash) : new Map<string, string>()
    const withHash = window.filter(({ row }) => 'hash' in row.secret)
    const ids = sortedIds(window.length)
    const running: Promise<void>[] = []
    try {
      for (const [rows, size] of [
        [withHash, BATCH_ROWS],
        [toHash, HASHED_ROWS],
      ] as const) {
        rows.sort((a, b) => (a.row.email < b.row.email ? -1 : 1))
        for (let first = 0; first < rows.length; first += size) {
          const batch = rows.slice(first, first + size)
          const imported = await Promise.all(
            batch.map(({ row }) => toUser(row, passwords, row.id ?? ids.pop())),
          )
          if (running.length === PARALLEL_BATCHES) await running.shift()
          await pause()
          const stored = storeBatch(batch, imported, rows === toHash)
          // It is awaited later; until then its failure is not unhandled.
          stored.catch(() => {})
          running.push(stored)
        }
      }
      await Promise.all(running)
    } finally {
      // After a failure, too, the database must not be closed before they have ended.
      await Promise.allSettled(running)
    }
  }

  async function storeBatch(batch: WaitingRow[], imported: ImportedUser[], isHashed: boolean) {
    const outcomes = await imports.run(imported, options, changeNow(deps))
    for (const [i, outcome] of outcomes.entries()) {
      if (outcome !== 'other-id') report.counts[outcome]++
      else report.reject(batch[i]?.line ?? 0, OTHER_ID)
    }
    options.onProgress(temporary !== null && isHashed)
  }

  async function toUser(
    row: CheckedRow,
    passwords: Map<string, string>,
    id: string = randomUUID(),
  ): Promise<ImportedUser> {
    const { secret, ...user } = row
    const hash = 'hash' in secret ? { passwordHash: secret.hash } : await hashOf(row, passwords)
    return { ...user, id, isIdGiven: row.id !== null, ...hash }
  }

  /** The passwords of the rows that get a temporary one: those of users that do not exist. */
  async function findPasswords(rows: WaitingRow[]): Promise<Map<string, string>> {
    const emails: string[] = []
    for (const { row } of rows) {
      // A row with the id of another user will be rejected, and must not be in the file of passwords.
      const found =
        (await users.findByEmail(row.email)) ?? (row.id && (await users.findById(row.id)))
      if (!found) emails.push(row.email)
    }
    report.temporary += emails.length
    if (options.isDryRun || !temporary || emails.length === 0)
      return new Map(emails.map(each => [each, '']))
    return passwordsFor(temporary.path, emails)
  }

  /** A dry run computes no hash. Users that exist keep theirs, if they need no other one. */
  async function hashOf(row: CheckedRow, passwords: Map<string, string>) {
    const { secret, email } = row
    const compute = (password: string) => (options.isDryRun ? '' : deps.hashPassword(password))
    const temporaryOne = passwords.get(email)
    if (temporary && temporaryOne !== undefined) {
      const passwordHash = await compute(temporaryOne)
      return { passwordHash, temporaryUntil: temporary.end(deps.clock()) }
    }
    const stored = (await users.findByEmail(email))?.passwordHash ?? ''
    if (!('password' in secret)) return { passwordHash: stored }
    const { isOverruled: allowWeak } = await checkPassword(row, secret)
    const isKept = stored && (!options.mayUpdate || (await isHashOf(stored, secret.password)))
    return { passwordHash: isKept ? stored : await compute(secret.password), allowWeak }
  }

  /** SQLite waits for nothing, and neither does a check: without this, a signal would not be noticed. */
  async function pause(): Promise<void> {
    await setImmediate()
    if (signal.aborted) throw new Failure('Interrupted.')
  }

  let window: WaitingRow[] = []
  /** The last full window is stored while the next one is read. */
  let storing = Promise.resolve()
  try {
    for (const { line, text } of records.all()) {
      if (line % PAUSE_LINES === 0) {
        await pause()
        options.onProgress(false)
      }
      try {
        const row = await check(line, text)
        if (row) window.push({ line, row })
      } catch (error) {
        if (!(error instanceof Failure)) throw error
        report.reject(line, error.message.replace(/\.$/, ''))
      }
      if (window.length < WINDOW_ROWS) continue
      await storing
      storing = store(window)
      // It is awaited later; until then its failure is not unhandled.
      storing.catch(() => {})
      window = []
    }
    await storing
    await store(window)
  } finally {
    // After a failure, too, the database must not be closed before it has ended.
    await storing.catch(() => {})
  }
}

const OTHER_ID = 'its email and its id belong to different users, or the user has another id'

/** The smallest last. Each id is copied: `randomUUID` joins its text from parts, and such texts take longer to sort. */
function sortedIds(length: number): string[] {
  const ids = Array.from({ length }, () => Buffer.from(randomUUID()).toString())
  return ids.sort().reverse()
}

async function isHashOf(stored: string, password: string): Promise<boolean> {
  if (costOf(stored) === null) return false
  const { compare } = await import('bcrypt')
  return compare(password, canonicalHash(stored))
}
