// The records of a file: CSV, NDJSON (one JSON object per line), or one JSON document with all users. Which one it
// is, the content tells.
import { text } from 'node:stream/consumers'
import { Failure } from '../failures.ts'
import { csvLine, csvRecordsOf, delimiterIn, fieldsOf, NOT_UTF8, TOO_LONG, textOf } from './csv.ts'
import { type Line, linesOf } from './lines.ts'

/** The column or field of a file of rejected rows that says what is wrong. */
export const REASON = 'reason'

type Container = 'csv' | 'ndjson' | 'json'
/** What was read of a user: texts from CSV, any values from JSON. */
export type Values = Record<string, unknown>

/** `line` is the number of its first line; `row` is a text if something is wrong with the record. */
export type SourceRecord = { line: number; bytes: Buffer; row: Values | string }
export type Records = {
  container: Container
  /** Null if the container is not CSV. */
  delimiter: string | null
  /** The names in the heading, or in the first object. */
  columns: string[]
  /** Those of the first rows that can be read; a guess at what the columns hold. */
  sample: Values[]
  parts: AsyncIterable<SourceRecord[]>
  /** The first line of a file of rejected rows. */
  rejectedHeading: string
  /** A rejected row with the reason. A row that cannot be read stays as it is. */
  toRejected: (bytes: Buffer, reason: string) => Buffer | string
}
type UnreadRecords = Omit<Records, 'sample'>
type Chunks = AsyncIterable<Buffer>

export async function openRecords(
  name: string,
  chunks: Chunks,
  given: { container: Container | undefined; delimiter: string | undefined },
): Promise<Records> {
  const { start, all } = await untilFirstLine(chunks)
  const firstLine = textOf(start)?.split('\n', 1)[0]?.trim() ?? ''
  if (start.toString('latin1').trim() === '') throw new Failure(`${name} is empty.`)
  const container = given.container ?? containerOf(firstLine)
  if (container === 'csv') return withSample(csvOf(start, all, given.delimiter))
  return withSample(container === 'json' ? await documentOf(name, all) : ndjsonOf(firstLine, all))
}

/** Reads up to the first part with a record in advance. */
async function withSample(records: UnreadRecords): Promise<Records> {
  const iterator = records.parts[Symbol.asyncIterator]()
  let next = await iterator.next()
  while (!next.done && next.value.length === 0) next = await iterator.next()
  const part: SourceRecord[] = next.done ? [] : next.value
  async function* all() {
    yield part
    yield* { [Symbol.asyncIterator]: () => iterator }
  }
  const sample = part.map(({ row }) => row).filter(row => typeof row !== 'string')
  return { ...records, sample, parts: all() }
}

function containerOf(firstLine: string): Container {
  if (!/^[[{]/.test(firstLine)) return 'csv'
  const value = parseJson(firstLine)
  const isObject = typeof value !== 'string' && !Array.isArray(value.users)
  return isObject || (firstLine.startsWith('{') && value === NOT_JSON && firstLine.endsWith('}'))
    ? 'ndjson'
    : 'json'
}

/** The start of the file with at least its first line that is not blank. */
async function untilFirstLine(chunks: Chunks): Promise<{ start: Buffer; all: Chunks }> {
  const iterator = chunks[Symbol.asyncIterator]()
  const read: Buffer[] = []
  let isBlank = true
  for (;;) {
    const { done, value } = await iterator.next()
    if (done) break
    read.push(value)
    isBlank &&= value.toString('latin1').trim() === ''
    if (!isBlank && value.includes('\n')) break
  }
  async function* all() {
    yield* read
    yield* { [Symbol.asyncIterator]: () => iterator }
  }
  return { start: Buffer.concat(read), all: all() }
}

function csvOf(start: Buffer, chunks: Chunks, givenDelimiter: string | undefined): UnreadRecords {
  const [heading = ''] = start.toString().split(/\r?\n/, 1)
  const delimiter = givenDelimiter ?? delimiterIn(heading)
  const names = fieldsOf(Buffer.from(heading), delimiter)
  if (typeof names === 'string') throw new Failure(`The heading cannot be read: ${names}.`)
  const columns = names.map(name => name.trim())
  if (new Set(columns).size < columns.length) throw new Failure('A column occurs twice.')
  const withoutReason = (fields: string[]) => fields.filter((_, index) => columns[index] !== REASON)

  const toRow = (fields: string[] | string): Values | string => {
    if (typeof fields === 'string') return fields
    if (fields.length !== columns.length) {
      return `the number of its fields is ${fields.length} instead of ${columns.length}`
    }
    return Object.fromEntries(columns.map((name, index) => [name, fields[index]]))
  }
  async function* parts() {
    let open: Line[] = []
    const parse = (lines: Line[], isEnd: boolean): SourceRecord[] => {
      const found = csvRecordsOf(lines, isEnd, delimiter)
      open = found.open
      return found.records
        .filter(({ line, fields }) => line > 1 && !isBlank(fields))
        .map(({ line, bytes, fields }) => ({ line, bytes, row: toRow(fields) }))
    }
    for await (const lines of linesOf(chunks)) yield parse([...open, ...lines], false)
    yield parse(open, true)
  }
  return {
    container: 'csv',
    delimiter,
    columns,
    parts: parts(),
    rejectedHeading: csvLine([...withoutReason(columns), REASON], delimiter),
    toRejected(bytes, reason) {
      const fields = fieldsOf(bytes, delimiter)
      if (typeof fields !== 'string') return csvLine([...withoutReason(fields), reason], delimiter)
      const end = Buffer.from(`${delimiter}${csvLine([reason], delimiter)}`)
      return Buffer.concat([bytes.subarray(0, bytes.length - lineEndOf(bytes)), end])
    },
  }
}

const isBlank = (fields: string[] | string) => fields.length === 1 && fields[0]?.trim() === ''

function lineEndOf(bytes: Buffer): number {
  return /\r?\n?$/.exec(bytes.subarray(-2).toString('latin1'))?.[0].length ?? 0
}

function ndjsonOf(firstLine: string, chunks: Chunks): UnreadRecords {
  async function* parts() {
    for await (const lines of linesOf(chunks)) {
      yield lines
        .filter(({ bytes }) => bytes.length > 2 || bytes.toString().trim() !== '')
        .map(({ number: line, bytes, isTooLong }): SourceRecord => {
          const text = textOf(bytes)
          const row = isTooLong ? TOO_LONG : text === null ? NOT_UTF8 : parseJson(text)
          return { line, bytes, row }
        })
    }
  }
  return { container: 'ndjson', parts: parts(), ...ofJson(parseJson(firstLine)) }
}

/** An array of users, or an object with the array "users". It is read as a whole. */
async function documentOf(name: string, chunks: Chunks): Promise<UnreadRecords> {
  const content = await text(chunks)
  const users = usersIn(name, content)
  const records = users.map((user: unknown, index): SourceRecord => {
    const row = isObject(user) ? user : NOT_AN_OBJECT
    return { line: index + 1, bytes: Buffer.from(`${JSON.stringify(user)}\n`), row }
  })
  async function* parts() {
    yield records
  }
  return { container: 'json', parts: parts(), ...ofJson(records[0]?.row ?? '') }
}

/** What both kinds of JSON have in common. */
function ofJson(first: Values | string): Omit<UnreadRecords, 'container' | 'parts'> {
  const columns = typeof first === 'string' ? [] : Object.keys(first)
  return { delimiter: null, columns, rejectedHeading: '', toRejected: toRejectedJson }
}

function usersIn(name: string, text: string): unknown[] {
  let document: unknown
  try {
    document = JSON.parse(text)
  } catch (error) {
    throw new Failure(`${name} is not valid JSON: ${error instanceof Error ? error.message : ''}.`)
  }
  const users = isObject(document) ? document.users : document
  if (Array.isArray(users)) return users
  throw new Failure(`${name} is JSON without an array of users.`)
}

function toRejectedJson(bytes: Buffer, reason: string): Buffer | string {
  const row = parseJson(textOf(bytes) ?? '')
  return typeof row === 'string' ? bytes : `${JSON.stringify({ ...row, [REASON]: reason })}\n`
}

const NOT_JSON = 'it is not valid JSON'
const NOT_AN_OBJECT = 'it is not a JSON object'

function parseJson(text: string): Values | string {
  try {
    const value: unknown = JSON.parse(text)
    return isObject(value) ? value : NOT_AN_OBJECT
  } catch {
    return NOT_JSON
  }
}

function isObject(value: unknown): value is Values {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
