// What became of rows that were not imported, by reason.
import { count } from '../terminal/layout.ts'

const SHOWN_LINES = 3
const SHOWN_REASONS = 20

export type Left = 'rejected' | 'skipped'

export class Report {
  readonly #reasons = {
    rejected: new Map<string, number[]>(),
    skipped: new Map<string, number[]>(),
  }
  readonly #counts = new Map<number[], number>()

  add(left: Left, line: number, reason: string): void {
    // One group for all repeated emails, whatever the line of the first.
    const group = reason.replace(/ in line \d+$/, ' in an earlier line')
    const lines = this.#reasons[left].get(group) ?? []
    if (lines.length < SHOWN_LINES) lines.push(line)
    this.#reasons[left].set(group, lines)
    this.#counts.set(lines, (this.#counts.get(lines) ?? 0) + 1)
  }

  /** The most frequent reason first. `unit` is what the rows are counted by, such as "line". */
  *sentences(unit: string): Generator<string> {
    for (const left of ['rejected', 'skipped'] as const) {
      const groups = [...this.#reasons[left]]
        .map(([reason, lines]) => ({ reason, lines, rows: this.#counts.get(lines) ?? 0 }))
        .toSorted((a, b) => b.rows - a.rows)
      for (const { reason, lines, rows } of groups.slice(0, SHOWN_REASONS)) {
        const first = `${unit}${rows === 1 ? '' : 's'} ${lines.join(', ')}${rows > SHOWN_LINES ? ' …' : ''}`
        yield `${count(rows, 'row', 'rows')} ${left}: ${reason} (${first}).`
      }
      const more = groups.length - SHOWN_REASONS
      if (more > 0) yield `${count(more, 'more reason', 'more reasons')} with fewer rows.`
    }
  }
}
