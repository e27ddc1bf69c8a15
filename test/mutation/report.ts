// What the command prints.
import type { Mutant } from './mutants.ts'
import type { Verdict } from './worker.ts'

const RESULTS: Verdict[] = ['killed', 'timeout', 'survived']
/** The progress is shown after this many. */
const SHOWN_EVERY = 25

export function createReport(mutants: Mutant[]) {
  const total = mutants.length
  const results: { mutant: Mutant; result: Verdict }[] = []
  const countOf = (result: Verdict, file?: string) =>
    results.filter(it => it.result === result && (!file || it.mutant.file === file)).length

  const print = (text: string) => process.stdout.write(`${text}\n`)

  return {
    add(mutant: Mutant, result: Verdict): void {
      results.push({ mutant, result })
      const { file, line, change } = mutant
      if (result === 'survived') print(`survived  ${file}:${line}\n          ${change}`)
      if (results.length % SHOWN_EVERY > 0) return
      print(`${results.length} of ${total}, ${countOf('survived')} survived`)
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
