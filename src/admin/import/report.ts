// What became of the rows: how many were added, updated …, and why others were not imported.

import { rm } from 'node:fs/promises'
import { Failure } from '../../system/failures.ts'
import { messageOf, replaceFile } from '../../system/files.ts'
import { count } from '../layout.ts'
import type { Records } from './records.ts'

const SHOWN_LINES = 3
const SHOWN_REASONS = 20
/** So many characters of the rejected rows are written at a time. */
const PART_LENGTH = 1_000_000

/** `lines` are the first ones. */
type Group = { rows: number; lines: number[] }

export class Report {
  readonly counts = { added: 0, updated: 0, unchanged: 0, skipped: 0, rejected: 0 }
  /** Users that got a temporary password. */
  temporary = 0
  /** The reasons by the lines, which are read again in the end: so a rejected row takes little memory. */
  readonly #rejected = new Map<number, string>()
  readonly #groups = { rejected: new Map<string, Group>(), skipped: new Map<string, Group>() }

  get done(): number {
    return Object.values(this.counts).reduce((sum, each) => sum + each)
  }

  reject(line: number, reason: string): void {
    this.#rejected.set(line, reason)
    // One group for all repeated emails, whatever the line of the first.
    this.#count('rejected', line, reason.replace(/ in line \d+$/, ' in an earlier line'))
  }

  skip(line: number, reason: string): void {
    this.#count('skipped', line, reason)
  }

  #count(left: 'rejected' | 'skipped', line: number, reason: string): void {
    this.counts[left]++
    const group = this.#groups[left].get(reason) ?? { rows: 0, lines: [] }
    this.#groups[left].set(reason, group)
    group.rows++
    if (group.lines.length < SHOWN_LINES) group.lines.push(line)
  }

  /** Writes the rejected rows with their reasons. Replaces the file of an earlier import, or removes it if there are none. */
  async writeRejected(path: string, records: Records): Promise<void> {
    const written =
      this.#rejected.size > 0
        ? replaceFile(path, this.#rejectedParts(records), 0o600, 'caller')
        : rm(path, { force: true })
    await written.catch(error => {
      throw new Failure(
        `The rejected rows cannot be written to ${path}: ${messageOf(error)}. Users that were imported before stay; run the command again when the file can be written.`,
      )
    })
  }

  *#rejectedParts({ all, read, rejectedHeading, toRejected }: Records): Generator<string> {
    let part = rejectedHeading
    for (const { line, text } of all()) {
      const reason = this.#rejected.get(line)
      if (reason !== undefined) part += toRejected(text, read(text), reason)
      if (part.length < PART_LENGTH) continue
      yield part
      part = ''
    }
    yield part
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
