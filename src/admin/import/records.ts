// The records of a file: CSV, NDJSON (one JSON object per line), or one JSON document with all users. Which one it
// is, the content tells.
import { Failure } from '../../failures.ts'
import { csvLine, csvRecords, delimiterIn } from './csv.ts'

/** The column or field of a file of rejected rows that says what is wrong. */
export const REASON = 'reason'
const NOT_UTF8 = 'it is not valid UTF-8: if the file comes from Excel, add --encoding latin1'
const BAD_QUOTE = 'a quote is not closed, or not at the start or the end of a field'
const NOT_JSON = 'it is not valid JSON'
const NOT_AN_OBJECT = 'it is not a JSON object'

export type Container = 'csv' | 'ndjson' | 'json'
/** What was read of a user: texts from CSV, any values from JSON. */
export type Values = Record<string, unknown>

/** `line` is the number of its first line, or of the user in a JSON document. `row` is a text if it cannot be read. */
export type SourceRecord = { line: number; text: string; row: Values | string }
export type Records = {
  container: Container
  /** Null if the container is not CSV. */
  delimiter: string | null
  /** The names in the heading, or in the first object. */
  columns: string[]
  /** The first row, if it can be read; a guess at what the columns hold. */
  first: Values
  all: Iterable<SourceRecord>
  /** The first line of a file of rejected rows. */
  rejectedHeading: string
  /** A rejected row with the reason. A row that cannot be read stays as it is. */
  toRejected: (record: SourceRecord, reason: string) => string
}

export function openRecords(
  name: string,
  text: string,
  given: { container: Container | undefined; delimiter: string | undefined },
): Records {
  if (text.trim() === '') throw new Failure(`${name} is empty.`)
  const container = given.container ?? containerOf(text)
  if (container === 'csv') return csvOf(text, given.delimiter)
  const all = container === 'json' ? [...documentOf(name, text)] : linesOf(text)
  const [first] = container === 'json' ? all : linesOf(text)
  return {
    ...{ container, delimiter: null, all, rejectedHeading: '' },
    ...startOf(first),
    toRejected: ({ text, row }, reason) =>
      typeof row === 'string' ? `${text}\n` : `${JSON.stringify({ ...row, [REASON]: reason })}\n`,
  }
}

function containerOf(text: string): Container {
  const firstLine = text.trimStart().split('\n', 1)[0]?.trim() ?? ''
  if (!/^[[{]/.test(firstLine)) return 'csv'
  const value = parseJson(firstLine)
  const isRow = typeof value !== 'string' && !Array.isArray(value.users)
  return isRow || (value === NOT_JSON && /^\{.*\}$/.test(firstLine)) ? 'ndjson' : 'json'
}

function csvOf(text: string, givenDelimiter: string | undefined): Records {
  const [heading = ''] = text.split('\n', 1)
  const delimiter = givenDelimiter ?? delimiterIn(heading)
  const [names] = csvRecords(text, delimiter)
  if (!names?.fields) throw new Failure(`The heading cannot be read: ${BAD_QUOTE}.`)
  const columns = names.fields.map(field => field.trim())
  if (new Set(columns).size < columns.length) throw new Failure('A column occurs twice.')

  const toRow = (fields: string[] | null, text: string): Values | string => {
    if (text.includes('\ufffd')) return NOT_UTF8
    if (!fields) return BAD_QUOTE
    if (fields.length !== columns.length) {
      return `the number of its fields is ${fields.length} instead of ${columns.length}`
    }
    return Object.fromEntries(columns.map((name, index) => [name, fields[index]]))
  }
  function* all(): Generator<SourceRecord> {
    for (const { line, text: record, fields } of csvRecords(text, delimiter)) {
      if (line > 1 && record.trim() !== '') yield { line, text: record, row: toRow(fields, record) }
    }
  }
  const others = columns.filter(column => column !== REASON)
  const [first] = all()
  return {
    ...{ container: 'csv', delimiter, all: all(), ...startOf(first), columns },
    rejectedHeading: csvLine([...others, REASON], delimiter),
    toRejected({ text, row }, reason) {
      if (typeof row === 'string')
        return `${text.trimEnd()}${delimiter}${csvLine([reason], delimiter)}`
      return csvLine([...others.map(column => String(row[column])), reason], delimiter)
    },
  }
}

function* linesOf(text: string): Generator<SourceRecord> {
  for (const [index, line] of text.split(/\r?\n/).entries()) {
    const row = line.includes('\ufffd') ? NOT_UTF8 : parseJson(line)
    if (line.trim() !== '') yield { line: index + 1, text: line, row }
  }
}

/** An array of users, or an object with the array "users". */
function* documentOf(name: string, text: string): Generator<SourceRecord> {
  let document: unknown
  try {
    document = JSON.parse(text)
  } catch (error) {
    throw new Failure(`${name} is not valid JSON: ${error instanceof Error ? error.message : ''}.`)
  }
  const users = isObject(document) ? document.users : document
  if (!Array.isArray(users)) throw new Failure(`${name} is JSON without an array of users.`)
  for (const [index, user] of users.entries()) {
    const row = isObject(user) ? user : NOT_AN_OBJECT
    yield { line: index + 1, text: JSON.stringify(user), row }
  }
}

function startOf(record: SourceRecord | undefined): Pick<Records, 'columns' | 'first'> {
  const first = record && typeof record.row !== 'string' ? record.row : {}
  return { first, columns: Object.keys(first) }
}

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
