// The records of a file, CSV or NDJSON: each with its lines, and its values or what is wrong with it.
import { Failure, WrongUse } from '../failures.ts'
import { csvRecordsOf, NOT_UTF8, TOO_LONG, textOf } from './csv.ts'
import { type Line, linesOf, withoutByteOrderMark } from './lines.ts'

export type Format = 'csv' | 'ndjson'
/** The field that holds the secret of a row. */
export type SecretField = 'passwordHash' | 'password'

export type ParsedRecord = { lines: Line[] } & (
  | { values: Record<string, unknown>; problem?: never }
  | { problem: string }
)
/** `heading` is the first line of a CSV file. */
export type Records = { heading: Buffer | null; records: ParsedRecord[] }

const REQUIRED = ['email', 'name']
const OPTIONAL = ['id', 'role', 'isActive', 'lockedUntil', 'createdAt']

/** The fields of an export, with the hash last. */
export const EXPORTED_FIELDS = [
  'id',
  'email',
  'name',
  'role',
  'isActive',
  'lockedUntil',
  'createdAt',
]

/** Refuses a file whose fields do not fit the options before its first row is returned. */
export function recordsOf(
  chunks: AsyncIterable<Buffer>,
  format: Format,
  secret: SecretField,
): AsyncGenerator<Records> {
  return format === 'csv' ? csvOf(chunks, secret) : ndjsonOf(chunks, secret)
}

async function* csvOf(chunks: AsyncIterable<Buffer>, secret: SecretField): AsyncGenerator<Records> {
  let heading: { bytes: Buffer; columns: string[] } | null = null
  let open: Line[] = []
  const parse = (lines: Line[], isEnd: boolean): Records => {
    const found = csvRecordsOf(lines, isEnd)
    open = found.open
    const records: ParsedRecord[] = []
    for (const record of found.records) {
      if (!heading) {
        if (!('fields' in record)) throw new Failure(`Line 1, the heading: ${record.problem}.`)
        heading = {
          bytes: Buffer.concat(record.lines.map(({ bytes }) => bytes)),
          columns: columnsOf(record.fields, secret),
        }
      } else if (!('fields' in record)) records.push(record)
      else if (!isBlank(record.fields)) records.push(toParsed(record, heading.columns))
    }
    return { heading: heading?.bytes ?? null, records }
  }
  for await (const lines of withoutMark(linesOf(chunks))) yield parse([...open, ...lines], false)
  yield parse(open, true)
}

function toParsed({ lines, fields }: { lines: Line[]; fields: string[] }, columns: string[]) {
  if (fields.length !== columns.length) {
    return { lines, problem: `the number of its fields is ${fields.length} instead of ${columns.length}` }
  }
  return { lines, values: Object.fromEntries(columns.map((name, index) => [name, fields[index]])) }
}

const isBlank = (fields: string[]) => fields.length === 1 && fields[0]?.trim() === ''

function columnsOf(fields: string[], secret: SecretField): string[] {
  const columns = fields.map(field => field.trim())
  refuseOtherSecret(columns, secret)
  const known = [...REQUIRED, secret, ...OPTIONAL]
  const problem =
    problemWithFields(columns, secret) ??
    (new Set(columns).size < columns.length ? 'a column occurs twice' : null) ??
    missingOf([...REQUIRED, secret].filter(name => !columns.includes(name)))
  if (problem === null) return columns
  throw new Failure(
    `Line 1 must be a heading with the columns ${known.join(', ')}, of which the first three are required: ${problem}.`,
  )
}

const missingOf = ([name]: string[]) => (name === undefined ? null : `"${name}" is missing`)

async function* ndjsonOf(
  chunks: AsyncIterable<Buffer>,
  secret: SecretField,
): AsyncGenerator<Records> {
  let isFirst = true
  for await (const lines of withoutMark(linesOf(chunks))) {
    const records: ParsedRecord[] = []
    for (const line of lines) {
      const record = parseJson(line, secret, isFirst)
      if (!record) continue
      isFirst = false
      records.push(record)
    }
    yield { heading: null, records }
  }
}

/** Null for an empty line. */
function parseJson(line: Line, secret: SecretField, isFirst: boolean): ParsedRecord | null {
  const lines = [line]
  if (line.isTooLong) return { lines, problem: TOO_LONG }
  const text = textOf(line.bytes)
  if (text === null) return { lines, problem: NOT_UTF8 }
  if (text.trim() === '') return null
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    return { lines, problem: 'it is not valid JSON' }
  }
  if (!isObject(value)) return { lines, problem: 'it is not a JSON object' }
  const names = Object.keys(value)
  if (isFirst) refuseOtherSecret(names, secret)
  const problem = problemWithFields(names, secret)
  return problem === null ? { lines, values: value } : { lines, problem }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function problemWithFields(names: string[], secret: SecretField): string | null {
  const unknown = names.find(
    name => name !== secret && !REQUIRED.includes(name) && !OPTIONAL.includes(name),
  )
  return unknown === undefined ? null : `"${unknown}" is not a field of a user`
}

function refuseOtherSecret(names: string[], secret: SecretField): void {
  if (secret === 'passwordHash' && names.includes('password')) {
    throw new WrongUse(
      'The file has passwords in plain text: add --hash-passwords to store their hashes, or replace "password" by "passwordHash".',
    )
  }
  if (secret === 'password' && names.includes('passwordHash')) {
    throw new WrongUse('The file has hashes of passwords: leave out --hash-passwords.')
  }
}

async function* withoutMark(batches: AsyncIterable<Line[]>): AsyncGenerator<Line[]> {
  for await (const lines of batches) {
    const [first] = lines
    if (first?.number === 1) lines[0] = { ...first, bytes: withoutByteOrderMark(first.bytes) }
    yield lines
  }
}
