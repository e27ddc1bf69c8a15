// Imports users from a source: reads, checks and stores the rows, and collects the rejected ones.
import bcrypt from 'bcrypt'
import type { ImportedUser, ImportOptions, ImportOutcome } from '../../domain/import.ts'
import { Failure } from '../failures.ts'
import { type AdminDeps, changeNow } from '../operations/deps.ts'
import { type CheckedRow, checkRow } from './check-row.ts'
import type { Line } from './lines.ts'
import { type Format, type ParsedRecord, recordsOf, type SecretField } from './records.ts'
import type { RejectedFile } from './rejected-file.ts'
import { RepeatedEmails } from './repeated-emails.ts'
import type { Source } from './source.ts'

/**
 * Rows are collected and sorted by email before they are stored: neighbours in an index are then written
 * together, which makes SQLite several times faster.
 */
const WINDOW = { rows: 100_000, bytes: 32_000_000 }
/** bcrypt takes longer than all the rest, so what was hashed is stored soon. */
const HASHED_WINDOW_ROWS = 100
/** One transaction. On SQLite it takes some 20 ms, for which logins wait. */
const BATCH_ROWS = 500

export type ImportCounts = Record<'added' | 'updated' | 'unchanged' | 'rejected', number>

export type Import = ImportOptions & {
  source: Source
  format: Format
  secret: SecretField
  maxCost: number
  /** Null for a dry run. */
  rejectedFile: RejectedFile | null
  /** Counts while the import runs, so that they are also known if it fails. */
  counts: ImportCounts
  onRejected: (line: number, problem: string) => void
  onProgress: (bytes: number) => void
}

type Row = CheckedRow & { lines: Line[] }

/** Not atomic: one transaction per batch. A further run finishes an import that was interrupted. */
export async function importUsers(
  deps: AdminDeps,
  options: Import,
  signal: AbortSignal,
): Promise<void> {
  const { source, format, secret, maxCost, rejectedFile, counts, onRejected, onProgress } = options
  const repeated = new RepeatedEmails()
  const windowRows = secret === 'password' ? HASHED_WINDOW_ROWS : WINDOW.rows
  let heading: Buffer | null = null
  let lastLine = 0
  let bytes = 0
  let bytesStored = 0
  let rows: Row[] = []

  async function reject(lines: Line[], problem: string): Promise<void> {
    counts.rejected++
    onRejected(lines[0]?.number ?? 0, problem)
    await rejectedFile?.add(lines, heading)
  }

  async function check(record: ParsedRecord, now: Date): Promise<void> {
    const line = record.lines[0]?.number ?? 0
    // The next part of a line that is too long.
    if (line === lastLine) return rejectedFile?.add(record.lines, heading)
    lastLine = line
    if (record.problem !== undefined) return reject(record.lines, record.problem)
    const row = tryCheck(() => checkRow(record.values, secret, maxCost, now))
    if (typeof row === 'string') return reject(record.lines, row)
    const first = repeated.firstLineOf(row.email, line)
    if (first !== null) return reject(record.lines, `its email is also in line ${first}`)
    rows.push({ ...row, lines: record.lines })
  }

  async function store(): Promise<void> {
    const sorted = sort(rows)
    rows = []
    bytesStored = bytes
    for (let first = 0; first < sorted.length; first += BATCH_ROWS) {
      if (signal.aborted) break
      const batch = sorted.slice(first, first + BATCH_ROWS)
      const outcomes = await storeBatch(deps, batch, options)
      for (const [index, outcome] of outcomes.entries()) {
        if (outcome !== 'other-id') counts[outcome]++
        else await reject(batch[index]?.lines ?? [], OTHER_ID)
      }
      onProgress(bytes)
    }
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
      const now = deps.clock()
      for (const record of part.records) {
        await check(record, now)
        if (rows.length >= windowRows) await store()
      }
      if (bytes - bytesStored > WINDOW.bytes) await store()
      onProgress(bytes)
    }
    if (!signal.aborted) await store()
    if (signal.aborted) throw new Failure('Interrupted.')
    await rejectedFile?.finish()
  } finally {
    await rejectedFile?.discard()
  }
}

const OTHER_ID = 'its email and its id belong to different users, or the user has another id'

/** The checked row, or what is wrong with it. */
function tryCheck(check: () => CheckedRow): CheckedRow | string {
  try {
    return check()
  } catch (error) {
    if (error instanceof Failure) return error.message.replace(/\.$/, '')
    throw error
  }
}

/** Ids that were made for the import are put in the order of the emails, for the same reason. */
function sort(rows: Row[]): Row[] {
  const sorted = rows.toSorted((a, b) => (a.email < b.email ? -1 : 1))
  const made = sorted.filter(({ isIdGiven }) => !isIdGiven)
  const ids = made.map(({ id }) => id).sort()
  for (const [index, row] of made.entries()) row.id = ids[index] ?? row.id
  return sorted
}

async function storeBatch(
  deps: AdminDeps,
  batch: Row[],
  { secret, mayUpdate, isDryRun }: Import,
): Promise<ImportOutcome[]> {
  const hash = (password: string) => (isDryRun ? NO_HASH : deps.hashPassword(password))
  /** Without a new hash if the user exists and needs none. */
  const hashOf = async (email: string, password: string) => {
    const stored = (await deps.store.findUserByEmail(email))?.passwordHash
    const isKept = stored && (!mayUpdate || (await bcrypt.compare(password, stored)))
    return isKept ? stored : hash(password)
  }
  const users = await Promise.all(
    batch.map(
      async ({ secret: given, lines: _, ...row }): Promise<ImportedUser> => ({
        ...row,
        passwordHash: secret === 'passwordHash' ? given : await hashOf(row.email, given),
      }),
    ),
  )
  return deps.store.importUsers(users, { mayUpdate, isDryRun }, changeNow(deps))
}

/** Differs from every stored hash; a dry run does not store it. */
const NO_HASH = ''
