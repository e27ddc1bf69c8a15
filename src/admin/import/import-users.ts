// Imports users from a source: reads, checks and stores the rows, and collects the rejected ones.
import { randomUUID } from 'node:crypto'
import { canonicalHash, costOf } from '../../bcrypt/hash-text.ts'
import type { ImportedUser, ImportOptions } from '../../domain/import.ts'
import { Failure } from '../failures.ts'
import { type AdminDeps, changeNow } from '../operations/deps.ts'
import { checkNewPassword } from '../operations/new-password.ts'
import { type CheckedRow, checkRow } from './check-row.ts'
import {
  type Format,
  type ParsedRecord,
  recordsOf,
  type SecretField,
  type Values,
} from './records.ts'
import type { RejectedFile } from './rejected-file.ts'
import { RepeatedEmails } from './repeated-emails.ts'
import type { Source } from './source.ts'
import { type WaitingRow, Window } from './window.ts'

/** bcrypt takes longer than all the rest, so what was hashed is stored soon. */
const HASHED_WINDOW_ROWS = 100
/** One transaction. On SQLite it takes some 20 ms, for which logins wait. */
const BATCH_ROWS = 500

export type ImportCounts = Record<'added' | 'updated' | 'unchanged' | 'rejected', number>

export type Import = ImportOptions & {
  source: Source
  format: Format
  secret: SecretField
  allowWeak: boolean | undefined
  maxCost: number
  /** Null for a dry run. */
  rejectedFile: RejectedFile | null
  /** Counts while the import runs, so that they are also known if it fails. */
  counts: ImportCounts
  onRejected: (line: number, problem: string) => void
  onProgress: (bytes: number) => void
}

/**
 * Not atomic: one transaction per batch. A further run finishes an import that was interrupted. Rows are sorted by
 * email before they are stored: neighbours in an index are then written together, which makes SQLite several
 * times faster, and parallel imports lock users in the same order.
 */
export async function importUsers(
  deps: AdminDeps,
  options: Import,
  signal: AbortSignal,
): Promise<void> {
  const { source, format, secret, maxCost, rejectedFile, counts, onRejected, onProgress } = options
  const repeated = new RepeatedEmails()
  const window = new Window(secret === 'password' ? HASHED_WINDOW_ROWS : undefined)
  let heading: Buffer | null = null
  let valuesOf: (bytes: Buffer) => Values | string = () => ''
  let lastLine = 0
  let bytes = 0

  const checked = (values: Values | string) =>
    typeof values === 'string' ? values : tryCheck(values, secret, maxCost, deps.clock())

  async function reject({ line, bytes }: WaitingRow, problem: string): Promise<void> {
    counts.rejected++
    onRejected(line, problem)
    await rejectedFile?.add(bytes, heading)
  }

  async function take(record: ParsedRecord): Promise<void> {
    const { line, values } = record
    // The next part of a line that is too long.
    if (line === lastLine) return rejectedFile?.add(record.bytes, heading)
    lastLine = line
    const row = checked(values)
    if (typeof row === 'string') return reject(record, row)
    const { refusal } = await checkSecret(row)
    if (refusal) return reject(record, refusal.message.replace(/\.$/, ''))
    const first = repeated.firstLineOf(row.email, line)
    if (first !== null) return reject(record, `its email is also in line ${first}`)
    if (window.add(row.email, record)) return
    await storeAll()
    window.add(row.email, record)
  }

  /** A hash has no password to check. */
  async function checkSecret(row: CheckedRow) {
    if (secret === 'passwordHash') return { refusal: null, isOverruled: false }
    return checkNewPassword(deps, { password: row.secret, allowWeak: options.allowWeak }, row)
  }

  async function storeAll(): Promise<void> {
    const { rows: total } = window
    let batch: WaitingRow[] = []
    let taken = 0
    // PostgreSQL stores a batch while the next one is prepared.
    let storing = Promise.resolve()
    for (const row of window.sorted()) {
      batch.push(row)
      if (batch.length < BATCH_ROWS && taken + batch.length < total) continue
      const rows = batch
      const first = taken
      const users = await Promise.all(
        rows.map((row, index) => toUser(row, orderedId((first + index) / total))),
      )
      await storing
      if (signal.aborted) return
      storing = storeBatch(rows, users)
      // It is awaited before the next one; until then its failure is not unhandled.
      storing.catch(() => {})
      taken += rows.length
      batch = []
    }
    await storing
  }

  async function storeBatch(batch: WaitingRow[], users: ImportedUser[]): Promise<void> {
    const outcomes = await deps.store.imports.run(users, options, changeNow(deps))
    for (const [index, outcome] of outcomes.entries()) {
      const row = batch[index]
      if (outcome !== 'other-id') counts[outcome]++
      else if (row) await reject(row, OTHER_ID)
    }
    onProgress(bytes)
  }

  async function toUser({ bytes }: WaitingRow, newId: string): Promise<ImportedUser> {
    const row = checked(valuesOf(bytes))
    if (typeof row === 'string') throw new Error(`a checked row is no longer valid: ${row}`)
    const { id, secret: given, ...user } = row
    const passwordHash =
      secret === 'passwordHash' ? given : await hashOf(deps, row.email, given, options)
    const { isOverruled: allowWeak } = await checkSecret(row)
    return { ...user, id: id ?? newId, isIdGiven: id !== null, passwordHash, allowWeak }
  }

  async function* counted(chunks: AsyncIterable<Buffer>) {
    for await (const chunk of chunks) {
      bytes += chunk.length
      yield chunk
    }
  }

  try {
    for await (const part of recordsOf(counted(source.chunks(signal)), format, secret)) {
      heading = part.heading
      valuesOf = part.valuesOf
      for (const record of part.records) await take(record)
      onProgress(bytes)
    }
    await storeAll()
    if (signal.aborted) throw new Failure('Interrupted.')
    await rejectedFile?.finish()
  } finally {
    await rejectedFile?.discard()
  }
}

/** A random UUID that begins with this share of its range: ids in the order of the emails, for the same reason. */
function orderedId(share: number): string {
  const start = Math.floor(share * 2 ** 32).toString(16)
  return start.padStart(8, '0') + randomUUID().slice(8)
}

const OTHER_ID = 'its email and its id belong to different users, or the user has another id'

/** The checked row, or what is wrong with it. */
function tryCheck(...row: Parameters<typeof checkRow>): CheckedRow | string {
  try {
    return checkRow(...row)
  } catch (error) {
    if (error instanceof Failure) return error.message.replace(/\.$/, '')
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
