// Formats data: tables and fields for people, JSON for programs.
import { printableLine, safeJson } from '../log/printable.ts'

export type Row = Record<string, string>

export function timeText(time: Date): string {
  return time.toISOString().replace(/\.\d+Z$/, 'Z')
}

export function count(items: number, one: string, several: string): string {
  return `${items} ${items === 1 ? one : several}`
}

export function jsonOf(data: unknown): string {
  return `${safeJson(JSON.stringify(data, null, 2))}\n`
}

/** One item per line, batch by batch, so that a long list is never held in memory as a whole. */
export async function* jsonListOf<T>(batches: AsyncIterable<T[]>): AsyncGenerator<string> {
  let lead = '[\n  '
  for await (const batch of batches) {
    yield lead + batch.map(item => safeJson(JSON.stringify(item))).join(',\n  ')
    lead = ',\n  '
  }
  yield lead.startsWith('[') ? '[]\n' : '\n]\n'
}

/** Columns line up within a batch and are never narrower than in the batch before. */
export async function* tableOf<T>(
  batches: AsyncIterable<T[]>,
  toRow: (item: T) => Row,
): AsyncGenerator<string> {
  let widths: number[] = []
  for await (const batch of batches) {
    const rows = batch.map(toRow)
    const lines = rows.map(row => Object.values(row).map(printableLine))
    if (widths.length === 0) {
      lines.unshift(Object.keys(rows[0] ?? {}).map(name => name.toUpperCase()))
    }
    widths = (lines[0] ?? []).map((_, column) =>
      Math.max(widths[column] ?? 0, ...lines.map(line => line[column]?.length ?? 0)),
    )
    yield lines.map(line => `${aligned(line, widths)}\n`).join('')
  }
}

/** A table of items that are all known; empty without items. */
export function tableText<T>(items: T[], toRow: (item: T) => Row): string {
  const rows = items.map(toRow)
  const lines = [Object.keys(rows[0] ?? {}).map(name => name.toUpperCase()), ...rows.map(cellsOf)]
  const widths = (lines[0] ?? []).map((_, i) =>
    Math.max(...lines.map(line => line[i]?.length ?? 0)),
  )
  return rows.length === 0 ? '' : lines.map(line => `${aligned(line, widths)}\n`).join('')
}

const cellsOf = (row: Row) => Object.values(row).map(printableLine)

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
