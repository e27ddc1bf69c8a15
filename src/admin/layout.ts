// Formats data: tables and fields for people, JSON for programs.
import { printableLine, safeJson } from '../log/printable.ts'

export type Row = Record<string, string>
/** The text of a batch of items. A long list is printed batch by batch, and never held in memory as a whole. */
export type ToText<T> = (batch: T[]) => string

export function timeText(time: Date): string {
  return time.toISOString().replace(/\.\d+Z$/, 'Z')
}

export function count(items: number, one: string, several: string): string {
  return `${items} ${items === 1 ? one : several}`
}

export function jsonOf(data: unknown): string {
  if (data instanceof JsonText) return data.pieces.join('')
  return `${safeJson(JSON.stringify(data, null, 2))}\n`
}

/** The text of `jsonOf` in pieces, none of which takes long to make: logins would wait for it. */
export class JsonText {
  readonly pieces: string[] = []

  /** A list of any length is given as its batches, which are kept as text only. */
  static async of(fields: Record<string, object | null>): Promise<JsonText> {
    const json = new JsonText()
    const { pieces } = json
    for (const [name, value] of Object.entries(fields)) {
      pieces.push(`${pieces.length === 0 ? '{' : ','}\n  "${name}": `)
      if (isBatches(value)) {
        let lead = '['
        for await (const batch of value) {
          if (batch.length === 0) continue
          pieces.push(lead, indented(batch).slice(1, -'\n  ]'.length))
          lead = ','
        }
        pieces.push(lead === '[' ? '[]' : '\n  ]')
      } else pieces.push(indented(value))
    }
    pieces.push('\n}\n')
    return json
  }
}

const isBatches = (value: object | null): value is AsyncIterable<unknown[]> =>
  value !== null && Symbol.asyncIterator in value

const indented = (value: unknown) =>
  safeJson(JSON.stringify(value, null, 2)).replaceAll('\n', '\n  ')

/** One item per line. An empty batch ends the list. */
export function createJsonList(): ToText<unknown> {
  let lead = '[\n  '
  return batch => {
    if (batch.length === 0) return lead.startsWith('[') ? '[]\n' : '\n]\n'
    const text = lead + batch.map(item => safeJson(JSON.stringify(item))).join(',\n  ')
    lead = ',\n  '
    return text
  }
}

/** Columns line up within a batch and are never narrower than in the batch before. */
export function createTable<T>(toRow: (item: T) => Row): ToText<T> {
  let widths: number[] = []
  return batch => {
    const rows = batch.map(toRow)
    const lines = rows.map(row => Object.values(row).map(printableLine))
    if (widths.length === 0) {
      lines.unshift(Object.keys(rows[0] ?? {}).map(name => name.toUpperCase()))
    }
    widths = (lines[0] ?? []).map((_, column) =>
      Math.max(widths[column] ?? 0, ...lines.map(line => line[column]?.length ?? 0)),
    )
    return rows.length === 0 ? '' : lines.map(line => `${aligned(line, widths)}\n`).join('')
  }
}

export function fieldLines(fields: Row): string {
  const width = Math.max(...Object.keys(fields).map(name => name.length))
  return Object.entries(fields)
    .map(([name, value]) => `${name.padEnd(width)}  ${printableLine(value)}\n`)
    .join('')
}

function aligned(cells: string[], widths: number[]): string {
  return cells
    .map((cell, column) => cell.padEnd(widths[column] ?? 0))
    .join('  ')
    .trimEnd()
}
