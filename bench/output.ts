// Writes findings to the terminal, to a JSON file, to plots, and to the tables of documents.
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type Findings, type Table, targetTable } from './findings.ts'
import { type Machine, machineLine } from './machine.ts'

/** Findings as stored in the JSON file, without the SVG of the plots. */
type Kept = Omit<Findings, 'plots'> & {
  machine: Machine
  isQuick: boolean
  plots: { file: string; title: string }[]
}
export type Results = Record<string, Kept>

const DATA_FILE = 'performance.json'
const DOCUMENTS = ['performance.md', 'scaling.md']

export function keep(findings: Findings, machine: Machine, isQuick: boolean): Kept {
  const plots = findings.plots.map(({ file, title }) => ({ file, title }))
  return { ...findings, machine, isQuick, plots }
}

export function toText({ title, head, rows }: Table): string {
  const widths = head.map((_, column) =>
    Math.max(...[head, ...rows].map(row => [...(row[column] ?? '')].length)),
  )
  const line = (row: string[]) =>
    row
      .map((cell, column) => {
        const padding = ' '.repeat((widths[column] ?? 0) - [...cell].length)
        return column === 0 ? cell + padding : padding + cell
      })
      .join('   ')
      .trimEnd()
  return `${title}\n${[head, ...rows].map(row => `  ${line(row)}`).join('\n')}\n`
}

function toMarkdown({ title, head, rows }: Table): string {
  const line = (row: string[]) => `| ${row.join(' | ')} |`
  const rule = `|---|${'--:|'.repeat(head.length - 1)}`
  return `${title}:\n\n${[line(head), rule, ...rows.map(line)].join('\n')}\n`
}

export async function savePlots(folder: string, findings: Findings): Promise<void> {
  await mkdir(join(folder, 'plots'), { recursive: true })
  for (const { file, svg } of findings.plots) await writeFile(join(folder, 'plots', file), svg)
}

/** Sections that were not run this time keep their earlier results. */
export async function saveResults(folder: string, results: Results): Promise<void> {
  const earlier: Results = await readFile(join(folder, DATA_FILE), 'utf8').then(
    JSON.parse,
    () => ({}),
  )
  const all = { ...earlier, ...results }
  await writeFile(join(folder, DATA_FILE), `${JSON.stringify(all, null, 2)}\n`)
  for (const document of DOCUMENTS) {
    const template = await readFile(join(import.meta.dirname, '..', 'docs', document), 'utf8')
    await writeFile(join(folder, document), fillIn(template, all))
  }
}

/** Writes each section's tables between its marks, so that no figure is copied by hand. */
export function fillIn(document: string, results: Results): string {
  return document.replace(
    /(<!-- measured: (\w+) -->\n).*?(<!-- end -->)/gs,
    (whole, begin: string, name: string, end: string) => {
      const kept = results[name]
      return kept ? `${begin}\n${sectionText(kept)}\n${end}` : whole
    },
  )
}

function sectionText({ tables, targets, plots, machine }: Kept): string {
  return [
    `*${machineLine(machine)}*\n`,
    ...[...tables, ...(targets.length > 0 ? [targetTable(targets)] : [])].map(toMarkdown),
    ...plots.map(({ file, title }) => `![${title}](plots/${file})\n`),
  ].join('\n')
}
