// What the command prints.
import type { Mutant } from './mutants.ts'
import type { Verdict } from './worker.ts'

const RESULTS: Verdict[] = ['killed', 'timeout', 'survived']
/** On a terminal, the progress is shown after each mutant; elsewhere, after this many. */
const SHOWN_EVERY = 25

export function createReport(mutants: Mutant[]) {
  const total = mutants.length
  const startMs = performance.now()
  const results: { mutant: Mutant; result: Verdict; isKnown: boolean }[] = []
  const countOf = (result: Verdict, file?: string) =>
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
    add(mutant: Mutant, result: Verdict, isKnown = false): void {
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
      return countOf('survived') === 0
    },
  }
}
