// CSV as in RFC 4180: fields in quotes may have delimiters, quotes (doubled) and line breaks. If a record is
// malformed, only its first line is rejected, and the next line starts a record. So an unclosed quote
// costs one line and not the rest of the file.
import { isUtf8 } from 'node:buffer'
import { type Line, MAX_LINE_BYTES } from './lines.ts'

const QUOTE = 0x22
const DELIMITERS = [',', ';', '\t']

export const TOO_LONG = `the line has more than ${MAX_LINE_BYTES} bytes`
export const NOT_UTF8 = 'it is not valid UTF-8: if the file comes from Excel, add --encoding latin1'
const NOT_CLOSED = 'a quote is not closed'
const MISPLACED = 'a quote is not at the start or the end of a field'

/** `line` is the number of its first line, `fields` what was read or what is wrong with it. */
type CsvRecord = { line: number; bytes: Buffer; fields: string[] | string }

/** The one that occurs most in the heading. */
export function delimiterIn(heading: string): string {
  const occurrences = (delimiter: string) => heading.split(delimiter).length
  return DELIMITERS.reduce((best, each) => (occurrences(each) > occurrences(best) ? each : best))
}

/**
 * The records of these lines. `open` are the lines at the end that begin a record whose end may follow: pass
 * them again, before the next lines.
 */
export function csvRecordsOf(
  lines: Line[],
  isEnd: boolean,
  delimiter: string,
): { records: CsvRecord[]; open: Line[] } {
  const records: CsvRecord[] = []
  for (let first = 0; first < lines.length; ) {
    const end = endOfRecord(lines, first)
    if (end === 'beyond' && !isEnd) return { records, open: lines.slice(first) }
    const record = readRecord(
      lines.slice(first, typeof end === 'number' ? end : first),
      lines[first],
      delimiter,
    )
    records.push(record)
    first = typeof record.fields === 'string' ? first + 1 : Number(end)
  }
  return { records, open: [] }
}

/** A malformed record is its first line only. Without lines, no end was found. */
function readRecord(lines: Line[], first: Line | undefined, delimiter: string): CsvRecord {
  const { number: line = 0, bytes: firstBytes = Buffer.alloc(0), isTooLong } = first ?? {}
  if (isTooLong) return { line, bytes: firstBytes, fields: TOO_LONG }
  if (lines.length === 0) return { line, bytes: firstBytes, fields: NOT_CLOSED }
  const bytes = lines.length === 1 ? firstBytes : Buffer.concat(lines.map(each => each.bytes))
  const fields = fieldsOf(bytes, delimiter)
  return { line, bytes: typeof fields === 'string' ? firstBytes : bytes, fields }
}

/** The record ends with the line that makes the number of its quotes even. */
function endOfRecord(lines: Line[], first: number): number | 'beyond' | 'nowhere' {
  let isOpen = false
  let bytes = 0
  for (let index = first; index < lines.length; index++) {
    const line = lines[index]
    if (!line || line.isTooLong) return 'nowhere'
    if (hasOddQuotes(line.bytes)) isOpen = !isOpen
    if (!isOpen) return index + 1
    bytes += line.bytes.length
    if (bytes > MAX_LINE_BYTES) return 'nowhere'
  }
  return 'beyond'
}

function hasOddQuotes(bytes: Buffer): boolean {
  let isOdd = false
  for (let at = bytes.indexOf(QUOTE); at !== -1; at = bytes.indexOf(QUOTE, at + 1)) isOdd = !isOdd
  return isOdd
}

/** The fields of a record with its line end, or what is wrong with it. */
export function fieldsOf(bytes: Buffer, delimiter: string): string[] | string {
  const text = textOf(bytes)
  if (text === null) return NOT_UTF8
  if (!text.includes('"')) return text.split(delimiter)
  const escaped = `\\u${delimiter.charCodeAt(0).toString(16).padStart(4, '0')}`
  const field = new RegExp(`(?:"([^"]*(?:""[^"]*)*)"|([^"${escaped}]*))(${escaped}|$)`, 'y')
  const fields: string[] = []
  for (;;) {
    const match = field.exec(text)
    if (!match) return MISPLACED
    const [, quoted, plain = '', separator] = match
    fields.push(quoted?.replaceAll('""', '"') ?? plain)
    if (separator === '') return fields
  }
}

export function csvLine(fields: string[], delimiter: string): string {
  const quoted = (field: string) =>
    /["\r\n]/.test(field) || field.includes(delimiter) ? `"${field.replaceAll('"', '""')}"` : field
  return `${fields.map(quoted).join(delimiter)}\r\n`
}

/** The text without its line end; null if it is not valid UTF-8. */
export function textOf(bytes: Buffer): string | null {
  return isUtf8(bytes) ? bytes.toString().replace(/\r?\n$/, '') : null
}
