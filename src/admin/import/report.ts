// What became of the rows: how many were added, updated …, and why others were not imported.

import { Failure } from '../../failures.ts'
import { messageOf, replaceFile } from '../../files.ts'
import { count } from '../terminal/layout.ts'
import type { Records, SourceRecord } from './records.ts'

const SHOWN_LINES = 3
const SHOWN_REASONS = 20

/** `lines` are the first ones. */
type Group = { rows: number; lines: number[] }

export class Report {
  readonly counts = { added: 0, updated: 0, unchanged: 0, skipped: 0, rejected: 0 }
  /** Users that got a temporary password. */
  temporary = 0
  readonly #rejected: { record: SourceRecord; reason: string }[] = []
  readonly #groups = { rejected: new Map<string, Group>(), skipped: new Map<string, Group>() }

  reject(record: SourceRecord, reason: string): void {
    this.#rejected.push({ record, reason })
    // One group for all repeated emails, whatever the line of the first.
    this.#count('rejected', record, reason.replace(/ in line \d+$/, ' in an earlier line'))
  }

  skip(record: SourceRecord, reason: string): void {
    this.#count('skipped', record, reason)
  }

  #count(left: 'rejected' | 'skipped', { line }: SourceRecord, reason: string): void {
    this.counts[left]++
    const group = this.#groups[left].get(reason) ?? { rows: 0, lines: [] }
    this.#groups[left].set(reason, group)
    group.rows++
    if (group.lines.length < SHOWN_LINES) group.lines.push(line)
  }

  /** Writes the rejected rows with their reasons, if there are any. Replaces an earlier file. */
  async writeRejected(path: string, { rejectedHeading, toRejected }: Records): Promise<void> {
    if (this.#rejected.length === 0) return
    const rows = this.#rejected
      .toSorted((a, b) => a.record.line - b.record.line)
      .map(({ record, reason }) => toRejected(record, reason))
    await replaceFile(path, rejectedHeading + rows.join(''), 0o600).catch(error => {
      throw new Failure(
        `The rejected rows cannot be written to ${path}: ${messageOf(error)}. Users that were imported before stay; run the command again when the file can be written.`,
      )
    })
  }

  /** The most frequent reason first. `unit` is what the rows are counted by, such as "line". */
  *sentences(unit: string): Generator<string> {
    for (const left of ['rejected', 'skipped'] as const) {
      const groups = [...this.#groups[left]].toSorted(([, a], [, b]) => b.rows - a.rows)
      for (const [reason, { lines, rows }] of groups.slice(0, SHOWN_REASONS)) {
        const first = `${unit}${rows === 1 ? '' : 's'} ${lines.join(', ')}${rows > SHOWN_LINES ? ' …' : ''}`
        yield `${count(rows, 'row', 'rows')} ${left}: ${reason} (${first}).`
      }
      const more = groups.length - SHOWN_REASONS
      if (more > 0) yield `${count(more, 'more reason', 'more reasons')} with fewer rows.`
    }
  }

  toString(): string {
    const { added, updated, unchanged, skipped, rejected } = this.counts
    return `${added} added, ${updated} updated, ${unchanged} unchanged, ${skipped} skipped, ${rejected} rejected`
  }
}
