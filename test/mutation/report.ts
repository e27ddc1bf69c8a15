// What the command prints, and its section of docs/reliability.md.
import { describeRun, writeSection } from '../storage/faults/report.ts'
import type { Mutant } from './mutants.ts'
import type { Verdict } from './worker.ts'

type Result = Verdict | 'equivalent'

const RESULTS: Result[] = ['killed', 'timeout', 'equivalent', 'survived']
/** On a terminal, the progress is shown after each mutant; elsewhere, after this many. */
const SHOWN_EVERY = 25

export function createReport(mutants: Mutant[]) {
  const total = mutants.length
  const startMs = performance.now()
  const results: { mutant: Mutant; result: Result; isKnown: boolean }[] = []
  const countOf = (result: Result, file?: string) =>
    results.filter(it => it.result === result && (!file || it.mutant.file === file)).length

  function print(text: string): void {
    if (process.stdout.isTTY) process.stdout.write('\r\x1b[K')
    process.stdout.write(`${text}\n`)
  }

  function showProgress(run: number): void {
    const msPerMutant = (performance.now() - startMs) / run
    const end = new Date(Date.now() + (total - results.length) * msPerMutant)
    const time = end.toTimeString().slice(0, 5)
    const text = `${results.length} of ${total}, ${countOf('survived')} survived, ends about ${time}`
    if (process.stdout.isTTY) process.stdout.write(`\r\x1b[K${text}`)
    else if (run % SHOWN_EVERY === 0) print(text)
  }

  return {
    print,
    add(mutant: Mutant, result: Result, isKnown = false): void {
      results.push({ mutant, result, isKnown })
      const { file, line, change } = mutant
      if (result === 'survived') print(`survived  ${file}:${line}\n          ${change}`)
      const run = results.filter(it => !it.isKnown).length
      if (run > 0) showProgress(run)
    },
    /** True if none survived. */
    end(): boolean {
      const files = [...new Set(mutants.map(({ file }) => file))]
      const row = (name: string, file?: string) => {
        const counts = RESULTS.map(result => countOf(result, file))
        const all = mutants.filter(mutant => !file || mutant.file === file).length
        const notRun = all - counts.reduce((a, b) => a + b)
        return `| ${name} | ${[...counts, notRun].join(' | ')} |`
      }
      const table = [
        `| file | ${RESULTS.join(' | ')} | not run |`,
        `|---|${'---:|'.repeat(RESULTS.length + 1)}`,
        ...files.map(file => row(`\`${file}\``, file)),
        row('all'),
      ].join('\n')
      print(`\n${table}`)
      writeSection('mutation', `${INTRODUCTION}\n\n${table}\n\n${describeRun(COMMAND)}`)
      return countOf('survived') === 0
    },
  }
}

const COMMAND = [
  'PROOF_REPORT=1 node launch.cjs test/mutation/main.ts',
  ...process.argv.slice(2),
].join(' ')
const INTRODUCTION = `## Mutants

Each mutant is a file with one small change: a condition negated, a boundary moved, a call left out, a number or
operator replaced, in TypeScript and in SQL. It is killed if a test fails, and a timeout if the tests do not end.
\`test/mutation/equivalent.ts\` says of each equivalent mutant why no test can tell it from the code. What is not run
yet is left for a run with \`--resume\`, which keeps the verdicts of earlier runs.`
