// CSV as in RFC 4180: fields in quotes may have delimiters, quotes (doubled) and line breaks.
import { Failure } from '../../system/failures.ts'

const DELIMITERS = [',', ';', '\t']
/** More characters than the lines of any user have. */
const MAX_RECORD = 1_000_000
/** What databases write for a missing value. In quotes it is text. */
const NULLS = ['NULL', '\\N']

/** `line` is the number of its first line. */
export type TextRecord = { line: number; text: string }

/** The one that occurs most in the heading. */
export function delimiterIn(heading: string): string {
  const occurrences = (delimiter: string) => heading.split(delimiter).length
  return DELIMITERS.reduce((best, each) => (occurrences(each) > occurrences(best) ? each : best))
}

/** Leaves out blank lines, and reads no further than its caller. */
export function* linesOf(text: string, endOf = endOfLine): Generator<TextRecord> {
  for (let start = 0, line = 1; start < text.length; ) {
    const end = endOf(text, start)
    const record = text.slice(start, end)
    if (record.trim() !== '') yield { line, text: record }
    line += end === endOfLine(text, start) ? 1 : record.split('\n').length - 1
    start = end
  }
}

export function csvRecords(text: string, delimiter: string): Generator<TextRecord> {
  return linesOf(text, (text, start) => endOfRecord(text, start, delimiter))
}

/**
 * A record ends with the line that makes its quotes even. If such a record is malformed, or has no end, only its first line
 * is rejected, and the next line starts a record. Up to the end of that record all lines have even quotes, so no line is
 * read more than twice. If a quote is open for too long, the rest of the file cannot be trusted.
 */
function endOfRecord(text: string, start: number, delimiter: string): number {
  const first = endOfLine(text, start)
  for (let from = start, end = first, isOpen = false; ; end = endOfLine(text, from)) {
    if (hasOddQuotes(text.slice(from, end))) isOpen = !isOpen
    if (!isOpen) {
      return end === first || fieldsOf(text.slice(start, end), delimiter) ? end : first
    }
    const quote = text.indexOf('"', end)
    from = quote === -1 ? text.length : quote
    if (from - start > MAX_RECORD) {
      const line = text.slice(0, start).split('\n').length
      throw new Failure(
        `A quote in line ${line} is not closed within ${MAX_RECORD} characters. Nothing was imported.`,
      )
    }
    if (quote === -1) return first
  }
}

const hasOddQuotes = (text: string) => text.split('"').length % 2 === 0

const endOfLine = (text: string, start: number) => text.indexOf('\n', start) + 1 || text.length

/** Null if a quote is misplaced or not closed. */
export function fieldsOf(record: string, delimiter: string): string[] | null {
  const text = record.replace(/\r?\n$/, '')
  if (!text.includes('"')) return text.split(delimiter).map(withoutNull)
  const fields: string[] = []
  for (let start = 0, end = 0; start <= text.length; start = end + 1) {
    if (text[start] === '"') {
      end = endOfQuoted(text, start)
      if (end === 0 || (end < text.length && text[end] !== delimiter)) return null
      fields.push(text.slice(start + 1, end - 1).replaceAll('""', '"'))
    } else {
      const next = text.indexOf(delimiter, start)
      end = next === -1 ? text.length : next
      const field = text.slice(start, end)
      if (field.includes('"')) return null
      fields.push(withoutNull(field))
    }
  }
  return fields
}

/** The index after the closing quote; 0 if there is none. */
function endOfQuoted(text: string, start: number): number {
  let quote = text.indexOf('"', start + 1)
  while (quote !== -1 && text[quote + 1] === '"') quote = text.indexOf('"', quote + 2)
  return quote + 1
}

const withoutNull = (field: string) => (NULLS.includes(field) ? '' : field)

export function csvLine(fields: string[], delimiter: string): string {
  const quoted = (field: string) =>
    /["\r\n]/.test(field) || field.includes(delimiter) || NULLS.includes(field)
      ? `"${field.replaceAll('"', '""')}"`
      : field
  return `${fields.map(quoted).join(delimiter)}\r\n`
}
