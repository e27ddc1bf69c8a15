// The records of a file: CSV, NDJSON (one JSON object per line), or one JSON document with all users. Which one it
// is, the content tells.
import { Failure } from '../../system/failures.ts'
import { messageOf } from '../../system/files.ts'
import { csvLine, csvRecords, delimiterIn, fieldsOf, linesOf, type TextRecord } from './csv.ts'
import type { Source } from './source.ts'

/** The column or field of a file of rejected rows that says what is wrong. */
export const REASON = 'reason'
const BAD_QUOTE = 'a quote is not closed, or not at the start or the end of a field'
const NOT_JSON = 'it is not valid JSON'
const NOT_AN_OBJECT = 'it is not a JSON object'
/** Rows that tell what the columns hold. */
const SAMPLE_ROWS = 100
/** Fewer than a Map can have. A row of 256 MiB has then 53 bytes, less than a hash. */
const MAX_ROWS = 5_000_000

/** What was read of a user: texts from CSV, any values from JSON. */
export type Values = Record<string, unknown>

type Layout = {
  /** Null if it is not CSV. */
  delimiter: string | null
  /** The names in the heading; null if each row has its own. */
  heading: string[] | null
  /** All rows from the first one on. `line` is the number of the user in a JSON document. */
  all: () => Iterable<TextRecord>
  /** The values of a row, or what is wrong with it. */
  read: (text: string) => Values | string
  /** The first line of a file of rejected rows. */
  rejectedHeading: string
  /** A rejected row with the reason. `row` is what was read. */
  toRejected: (text: string, row: Values | string, reason: string) => string
}

export type Records = Layout & {
  container: Container
  /** The names in the heading, or in the first row that can be read. */
  columns: string[]
  /** Those of the first rows that can be read. */
  sample: Values[]
  total: number
}

const LAYOUTS = {
  csv: ({ text }: Source, _: string, delimiter?: string) => csvOf(text, delimiter),
  ndjson: ({ text }: Source) => jsonOf(() => linesOf(text)),
  json: ({ text }: Source, name: string) => {
    // As texts, the users take less memory.
    const users = usersIn(name, text).map((user, index) => ({
      ...{ line: index + 1, text: JSON.stringify(user) },
    }))
    return jsonOf(() => users)
  },
} satisfies Record<string, (source: Source, name: string, delimiter?: string) => Layout>
type Container = keyof typeof LAYOUTS

export function openRecords(
  name: string,
  source: Source,
  given: { container: Container | undefined; delimiter: string | undefined },
): Records {
  const [first] = linesOf(source.text)
  if (!first) throw new Failure(`${name} is empty.`)
  const container = given.container ?? containerOf(first.text.trim())
  const layout = LAYOUTS[container](source, name, given.delimiter)
  const { damage } = source
  const read = (text: string) =>
    damage !== null && text.includes('\ufffd') ? damage : layout.read(text)
  const sample: Values[] = []
  let total = 0
  for (const { text } of layout.all()) {
    if (++total > MAX_ROWS) throw new Failure(`${name} has more than ${MAX_ROWS} rows.`)
    const row = total <= SAMPLE_ROWS ? read(text) : ''
    if (typeof row !== 'string') sample.push(row)
  }
  const columns = layout.heading ?? Object.keys(sample[0] ?? {})
  return { ...layout, container, read, sample, total, columns }
}

function containerOf(firstLine: string): Container {
  if (!/^[[{]/.test(firstLine)) return 'csv'
  const value = parseJson(firstLine)
  const isRow = typeof value !== 'string' && !Array.isArray(value.users)
  const isBrokenRow = value === NOT_JSON && firstLine.startsWith('{') && firstLine.endsWith('}')
  return isRow || isBrokenRow ? 'ndjson' : 'json'
}

function csvOf(text: string, givenDelimiter: string | undefined): Layout {
  const [first] = linesOf(text)
  const delimiter = givenDelimiter ?? delimiterIn(first?.text ?? '')
  const [heading] = csvRecords(text, delimiter)
  const names = fieldsOf(heading?.text ?? '', delimiter)
  if (!names) throw new Failure(`The heading cannot be read: ${BAD_QUOTE}.`)
  const columns = names.map(name => name.trim())
  const others = columns.filter(column => column.toLowerCase() !== REASON)
  return {
    delimiter,
    heading: columns,
    *all() {
      for (const record of csvRecords(text, delimiter)) {
        if (record.line !== heading?.line) yield record
      }
    },
    read(text) {
      const fields = fieldsOf(text, delimiter)
      if (!fields) return BAD_QUOTE
      if (fields.length !== columns.length) {
        return `the number of its fields is ${fields.length} instead of ${columns.length}`
      }
      // Also a column that is called __proto__.
      return Object.fromEntries(columns.map((name, index) => [name, fields[index]]))
    },
    rejectedHeading: csvLine([...others, REASON], delimiter),
    toRejected(text, row, reason) {
      if (typeof row !== 'string') {
        return csvLine([...others.map(column => String(row[column])), reason], delimiter)
      }
      return `${text.replace(/\r?\n$/, '')}${delimiter}${csvLine([reason], delimiter)}`
    },
  }
}

function jsonOf(all: Layout['all']): Layout {
  return {
    ...{ delimiter: null, heading: null, all, read: parseJson, rejectedHeading: '' },
    toRejected: (text, row, reason) =>
      `${typeof row === 'string' ? text.trimEnd() : JSON.stringify({ ...row, [REASON]: reason })}\n`,
  }
}

/** An array of users, or an object with the array "users". */
function usersIn(name: string, text: string): unknown[] {
  let document: unknown
  try {
    document = JSON.parse(text)
  } catch (error) {
    // The rest of the message can quote a hash.
    const [at = ''] = / at position \d+/.exec(messageOf(error)) ?? []
    throw new Failure(`${name} is not valid JSON${at}.`)
  }
  const users = isObject(document) ? document.users : document
  if (!Array.isArray(users)) throw new Failure(`${name} is JSON without an array of users.`)
  return users
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
