// What became of rows that were not imported, by reason.
import { count } from '../terminal/layout.ts'

const SHOWN_LINES = 3
const SHOWN_REASONS = 20

export type Left = 'rejected' | 'skipped'
/** `lines` are the first ones. */
type Group = { reason: string; rows: number; lines: number[] }

export class Report {
  readonly #groups = { rejected: new Map<string, Group>(), skipped: new Map<string, Group>() }

  add(left: Left, line: number, given: string): void {
    // One group for all repeated emails, whatever the line of the first.
    const reason = given.replace(/ in line \d+$/, ' in an earlier line')
    const group = this.#groups[left].get(reason) ?? { reason, rows: 0, lines: [] }
    this.#groups[left].set(reason, group)
    group.rows++
    if (group.lines.length < SHOWN_LINES) group.lines.push(line)
  }

  /** The most frequent reason first. `unit` is what the rows are counted by, such as "line". */
  *sentences(unit: string): Generator<string> {
    for (const left of ['rejected', 'skipped'] as const) {
      const groups = [...this.#groups[left].values()].toSorted((a, b) => b.rows - a.rows)
      for (const { reason, lines, rows } of groups.slice(0, SHOWN_REASONS)) {
        const first = `${unit}${rows === 1 ? '' : 's'} ${lines.join(', ')}${rows > SHOWN_LINES ? ' …' : ''}`
        yield `${count(rows, 'row', 'rows')} ${left}: ${reason} (${first}).`
      }
      const more = groups.length - SHOWN_REASONS
      if (more > 0) yield `${count(more, 'more reason', 'more reasons')} with fewer rows.`
    }
  }
}
