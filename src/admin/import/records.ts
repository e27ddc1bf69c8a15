// The records of a file, CSV or NDJSON: each with its bytes, and its values or what is wrong with it.
import { Failure, WrongUse } from '../failures.ts'
import { csvRecordsOf, fieldsOf, NOT_UTF8, TOO_LONG, textOf } from './csv.ts'
import { type Line, linesOf, withoutByteOrderMark } from './lines.ts'

export type Format = 'csv' | 'ndjson'
/** The field that holds the secret of a row. */
export type SecretField = 'passwordHash' | 'password'
export type Values = Record<string, unknown>

/** `line` is the number of its first line; `values` is a text if something is wrong with the record. */
export type ParsedRecord = { line: number; bytes: Buffer; values: Values | string }
export type Records = {
  /** The first line of a CSV file. */
  heading: Buffer | null
  records: ParsedRecord[]
  /** Reads a record again. */
  valuesOf: (bytes: Buffer) => Values | string
}

const REQUIRED = ['email', 'name']
const OPTIONAL = ['id', 'role', 'isActive', 'lockedUntil', 'temporaryUntil', 'createdAt']

/** In the order of an export, which may add the hash. */
export const EXPORTED_FIELDS = [
  'id',
  'email',
  'name',
  'role',
  'isActive',
  'lockedUntil',
  'temporaryUntil',
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
  let heading: Buffer | null = null
  let columns: string[] = []
  let open: Line[] = []
  const valuesOf = (fields: string[] | string) => {
    if (typeof fields === 'string') return fields
    if (fields.length !== columns.length) {
      return `the number of its fields is ${fields.length} instead of ${columns.length}`
    }
    return Object.fromEntries(columns.map((name, index) => [name, fields[index]]))
  }
  const parse = (lines: Line[], isEnd: boolean): Records => {
    const found = csvRecordsOf(lines, isEnd)
    open = found.open
    const records: ParsedRecord[] = []
    for (const { line, bytes, fields } of found.records) {
      if (!heading) {
        columns = columnsOf(fields, secret)
        heading = bytes
      } else if (!isBlank(fields)) records.push({ line, bytes, values: valuesOf(fields) })
    }
    return { heading, records, valuesOf: bytes => valuesOf(fieldsOf(bytes)) }
  }
  for await (const lines of withoutMark(linesOf(chunks))) yield parse([...open, ...lines], false)
  yield parse(open, true)
}

const isBlank = (fields: string[] | string) => fields.length === 1 && fields[0]?.trim() === ''

function columnsOf(fields: string[] | string, secret: SecretField): string[] {
  const columns = typeof fields === 'string' ? [] : fields.map(field => field.trim())
  refuseOtherSecret(columns, secret)
  if (columns.length === 1 && columns[0]?.includes(';')) {
    throw new Failure(
      'The fields are separated by semicolons: save the file as CSV with commas, or as NDJSON.',
    )
  }
  const required = [...REQUIRED, secret]
  const missing = required.find(name => !columns.includes(name))
  const problem =
    (typeof fields === 'string' ? fields : problemWithFields(columns, secret)) ??
    (new Set(columns).size < columns.length ? 'a column occurs twice' : null) ??
    (missing === undefined ? null : `"${missing}" is missing`)
  if (problem === null) return columns
  throw new Failure(
    `Line 1 must be a heading with the columns ${required.join(', ')} and any of ${OPTIONAL.join(', ')}: ${problem}.`,
  )
}

async function* ndjsonOf(
  chunks: AsyncIterable<Buffer>,
  secret: SecretField,
): AsyncGenerator<Records> {
  let isFirst = true
  const valuesOf = parseJson
  for await (const lines of withoutMark(linesOf(chunks))) {
    const records: ParsedRecord[] = []
    for (const { number: line, bytes, isTooLong } of lines) {
      if (!isTooLong && isEmpty(bytes)) continue
      const values = isTooLong ? TOO_LONG : valuesOf(bytes)
      if (isFirst && typeof values === 'object') refuseOtherSecret(Object.keys(values), secret)
      isFirst = false
      records.push({
        line,
        bytes,
        values: typeof values === 'string' ? values : known(values, secret),
      })
    }
    yield { heading: null, records, valuesOf }
  }
}

const isEmpty = (bytes: Buffer) => bytes.length < 3 && bytes.toString().trim() === ''

function parseJson(bytes: Buffer): Values | string {
  const text = textOf(bytes)
  if (text === null) return NOT_UTF8
  try {
    const value: unknown = JSON.parse(text)
    return isObject(value) ? value : 'it is not a JSON object'
  } catch {
    return 'it is not valid JSON'
  }
}

function known(values: Values, secret: SecretField): Values | string {
  return problemWithFields(Object.keys(values), secret) ?? values
}

function isObject(value: unknown): value is Values {
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
