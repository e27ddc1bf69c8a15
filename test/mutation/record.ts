// The verdicts: printed, and remembered from one run to the next, for `--resume`.
import { hash } from 'node:crypto'
import { appendFileSync, existsSync, mkdirSync, readFileSync, rmSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import type { Mutant } from './mutants.ts'
import type { Verdict } from './worker.ts'

const RECORD = resolve('node_modules/.cache/mutation.jsonl')
const VERDICTS: Verdict[] = ['killed', 'timeout', 'survived']
/** The progress is shown after this many. */
const SHOWN_EVERY = 25

type Entry = { mutant: string; verdict: Verdict }

export function openRecord(mutants: Mutant[], isResumed: boolean) {
  if (!isResumed) rmSync(RECORD, { force: true })
  mkdirSync(dirname(RECORD), { recursive: true })
  const lines = existsSync(RECORD) ? readFileSync(RECORD, 'utf8').trim().split('\n') : []
  const entries = lines.map((line): Entry => JSON.parse(line))
  const earlier = new Map(entries.map(({ mutant, verdict }) => [mutant, verdict]))
  const verdicts = new Map<Mutant, Verdict>()
  const print = (text: string) => process.stdout.write(`${text}\n`)
  const survivors = () => [...verdicts.values()].filter(verdict => verdict === 'survived').length

  function add(mutant: Mutant, verdict: Verdict): void {
    verdicts.set(mutant, verdict)
    const { file, line, change } = mutant
    if (verdict === 'survived') print(`survived  ${file}:${line}\n          ${change}`)
    if (verdicts.size % SHOWN_EVERY > 0) return
    print(`${verdicts.size} of ${mutants.length}, ${survivors()} survived`)
  }

  /** A row of the table: how many there are of each verdict, and without one. */
  function rowOf(name: string, shown: Mutant[]): string {
    const found = shown.map(mutant => verdicts.get(mutant))
    const counts = [...VERDICTS, undefined].map(
      it => found.filter(verdict => verdict === it).length,
    )
    return `| ${name} | ${counts.join(' | ')} |`
  }

  return {
    /** Without those that an earlier run has judged. A survivor is tried again: there may be a new test. */
    takeWaiting: () =>
      mutants.filter(mutant => {
        const known = earlier.get(idOf(mutant))
        if (known === undefined || known === 'survived') return true
        add(mutant, known)
        return false
      }),
    add(mutant: Mutant, verdict: Verdict): void {
      const entry: Entry = { mutant: idOf(mutant), verdict }
      appendFileSync(RECORD, `${JSON.stringify(entry)}\n`)
      add(mutant, verdict)
    },
    /** True if none survived. */
    end(): boolean {
      const files = [...Map.groupBy(mutants, ({ file }) => file)]
      print(`\n| file | ${VERDICTS.join(' | ')} | not run |`)
      print(`|---|${'---:|'.repeat(VERDICTS.length + 1)}`)
      for (const [file, ofFile] of files) print(rowOf(`\`${file}\``, ofFile))
      print(rowOf('all', mutants))
      return survivors() === 0
    },
  }
}

/** A change of its file makes another mutant of it. */
function idOf({ file, source }: Mutant): string {
  return hash('sha256', `${file}\n${source}`)
}
