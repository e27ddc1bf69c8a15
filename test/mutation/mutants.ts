// All mutants of a file: the file with one small change.
import { resolve } from 'node:path'
import { API } from 'typescript/unstable/sync'
import { editsIn } from './edits.ts'
import type { Edit } from './sql-edits.ts'

export type Mutant = {
  file: string
  line: number
  /** The changed line, as in "if (left {<= → <} 0) return". Names the mutant for as long as the line stays. */
  change: string
  /** The file with the change. */
  source: string
}

export function mutantsOf(files: string[]): Mutant[] {
  const api = new API({ cwd: process.cwd() })
  const [project] = api.updateSnapshot({ openProjects: [resolve('tsconfig.json')] }).getProjects()
  const mutants = files.flatMap(file => {
    const source = project?.program.getSourceFile(resolve(file))
    if (!source) throw new Error(`${file} is not a source file of this project`)
    // First, the tests must notice that the file is there at all.
    const edits = [
      { from: 0, to: 0, text: 'throw new Error("mutant")\n' },
      ...editsIn(source, source),
    ]
    return named(edits.map(edit => toMutant(file, source.text, edit)))
  })
  api.close()
  return mutants
}

function toMutant(file: string, text: string, { from, to, text: changed }: Edit): Mutant {
  const lineStart = text.lastIndexOf('\n', from - 1) + 1
  const lineEnd = text.indexOf('\n', to)
  const edit = `{${oneLine(text.slice(from, to))} → ${oneLine(changed)}}`
  return {
    file,
    line: text.slice(0, from).split('\n').length,
    change: `${text.slice(lineStart, from)}${edit}${text.slice(to, lineEnd)}`.trim(),
    source: text.slice(0, from) + changed + text.slice(to),
  }
}

function oneLine(text: string): string {
  const words = text.trim().replace(/\s+/g, ' ')
  return words.length > 60 ? `${words.slice(0, 40)} … ${words.slice(-16)}` : words
}

/** Equal lines of a file are numbered. */
function named(mutants: Mutant[]): Mutant[] {
  const seen = new Map<string, number>()
  return mutants.map(mutant => {
    const count = (seen.get(mutant.change) ?? 0) + 1
    seen.set(mutant.change, count)
    return count === 1 ? mutant : { ...mutant, change: `${mutant.change} (${count})` }
  })
}
