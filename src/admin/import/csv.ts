// CSV as in RFC 4180: fields in quotes may have delimiters, quotes (doubled) and line breaks.

const DELIMITERS = [',', ';', '\t']

/** `line` is the number of its first line. `fields` is null if a quote is misplaced or not closed. */
export type CsvRecord = { line: number; text: string; fields: string[] | null }

/** The one that occurs most in the heading. */
export function delimiterIn(heading: string): string {
  const occurrences = (delimiter: string) => heading.split(delimiter).length
  return DELIMITERS.reduce((best, each) => (occurrences(each) > occurrences(best) ? each : best))
}

/** If a record is malformed, only its first line is rejected, and the next line starts a record. */
export function* csvRecords(text: string, delimiter: string): Generator<CsvRecord> {
  const separator = `\\u${delimiter.charCodeAt(0).toString(16).padStart(4, '0')}`
  const plain = `[^"\\r\\n${separator}]*`
  const field = new RegExp(`(?:"([^"]*(?:""[^"]*)*)"|(${plain}))(${separator}|\\r?\\n|$)`, 'y')
  for (let start = 0, line = 1; start < text.length; start = field.lastIndex) {
    field.lastIndex = start
    const fields = fieldsAt(field, text, delimiter)
    if (!fields) field.lastIndex = text.indexOf('\n', start) + 1 || text.length
    const record = text.slice(start, field.lastIndex)
    yield { line, text: record, fields }
    line += record.split('\n').length - 1
  }
}

function fieldsAt(field: RegExp, text: string, delimiter: string): string[] | null {
  const fields: string[] = []
  for (;;) {
    const match = field.exec(text)
    if (!match) return null
    const [, quoted, plain = '', end] = match
    fields.push(quoted?.replaceAll('""', '"') ?? plain)
    if (end !== delimiter) return fields
  }
}

export function csvLine(fields: string[], delimiter: string): string {
  const quoted = (field: string) =>
    /["\r\n]/.test(field) || field.includes(delimiter) ? `"${field.replaceAll('"', '""')}"` : field
  return `${fields.map(quoted).join(delimiter)}\r\n`
}
