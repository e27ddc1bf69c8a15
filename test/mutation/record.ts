// Remembers verdicts from one run to the next, for `--resume`.
import { hash } from 'node:crypto'
import { appendFileSync, existsSync, mkdirSync, readFileSync, rmSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import type { Mutant } from './mutants.ts'
import type { Verdict } from './worker.ts'

const RECORD = resolve('node_modules/.cache/mutation.jsonl')

type Entry = { mutant: string; verdict: Verdict }

export function openRecord(isResumed: boolean) {
  if (!isResumed) rmSync(RECORD, { force: true })
  mkdirSync(dirname(RECORD), { recursive: true })
  const lines = existsSync(RECORD) ? readFileSync(RECORD, 'utf8').trim().split('\n') : []
  const entries = lines.map((line): Entry => JSON.parse(line))
  const verdicts = new Map(entries.map(({ mutant, verdict }) => [mutant, verdict]))
  return {
    /** A survivor is tried again: there may be a new test. */
    find(mutant: Mutant): Verdict | null {
      const verdict = verdicts.get(idOf(mutant))
      return verdict === undefined || verdict === 'survived' ? null : verdict
    },
    add(mutant: Mutant, verdict: Verdict): void {
      const entry: Entry = { mutant: idOf(mutant), verdict }
      appendFileSync(RECORD, `${JSON.stringify(entry)}\n`)
    },
  }
}

/** A change of its file makes another mutant of it. */
function idOf({ file, source }: Mutant): string {
  return hash('sha256', `${file}\n${source}`)
}
