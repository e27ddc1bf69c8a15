// Writes findings to the terminal, to a JSON file, to plots, and to the tables of documents.
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type Findings, fixed, isMet, type Table } from './findings.ts'
import { isOutdated, type Machine, machineLine } from './machine.ts'

/** Findings as stored in the JSON file, without the SVG of the plots. */
type Kept = Omit<Findings, 'plots'> & {
  machine: Machine
  isQuick: boolean
  plots: { file: string; title: string }[]
}
/** By section. */
export type Results = Record<string, Kept>
/** By section and processor: a run replaces only the figures of its own processor. */
type AllResults = Record<string, Record<string, Kept>>

const DATA_FILE = 'performance.json'
const DOCUMENTS = ['performance.md', 'scaling.md']

export function keep(findings: Findings, machine: Machine, isQuick: boolean): Kept {
  const plots = findings.plots.map(({ file, title }) => ({ file: plotFile(file, machine), title }))
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

export async function savePlots(
  folder: string,
  { plots }: Findings,
  machine: Machine,
): Promise<void> {
  await mkdir(join(folder, 'plots'), { recursive: true })
  for (const { file, svg } of plots) {
    await writeFile(join(folder, 'plots', plotFile(file, machine)), svg)
  }
}

function plotFile(file: string, { processor }: Machine): string {
  return `${processor.toLowerCase().replace(/[^a-z0-9]+/g, '-')}-${file}`
}

/** Sections that were not run this time, and other processors, keep their earlier results. */
export async function saveResults(folder: string, results: Results): Promise<void> {
  const all: AllResults = await readFile(join(folder, DATA_FILE), 'utf8').then(
    JSON.parse,
    () => ({}),
  )
  for (const [section, kept] of Object.entries(results)) {
    all[section] = { ...all[section], [kept.machine.processor]: kept }
  }
  await writeFile(join(folder, DATA_FILE), `${JSON.stringify(all, null, 2)}\n`)
  for (const document of DOCUMENTS) {
    const template = await readFile(join(import.meta.dirname, '..', 'docs', document), 'utf8')
    await writeFile(join(folder, document), fillIn(template, all))
  }
}

/** Writes each section's tables between its marks, so that no figure is copied by hand. */
export function fillIn(document: string, results: AllResults): string {
  return document.replace(
    /(<!-- measured: (\w+) -->\n).*?(<!-- end -->)/gs,
    (whole, begin: string, name: string, end: string) => {
      const kept = results[name]
      return kept ? `${begin}\n${sectionText(Object.values(kept))}\n${end}` : whole
    },
  )
}

function sectionText(all: Kept[]): string {
  const targets = targetsSideBySide(all)
  return [
    ...all.map(({ machine, tables, plots }) =>
      [
        `*${machineLine(machine)}${isOutdated(machine) ? ': of an earlier version, not measured again yet' : ''}*\n`,
        ...tables.map(toMarkdown),
        ...plots.map(({ file, title }) => `![${title}](plots/${file})\n`),
      ].join('\n'),
    ),
    ...(targets.rows.length > 0 ? [toMarkdown(targets)] : []),
  ].join('\n')
}

/** One column per processor. */
function targetsSideBySide(all: Kept[]): Table {
  const names = new Set(all.flatMap(({ targets }) => targets.map(({ name }) => name)))
  const title = 'Targets'
  const head = ['figure', 'target', ...all.map(({ machine }) => machine.processor)]
  const rows = [...names].map(name => {
    const found = all.map(({ targets }) => targets.find(target => target.name === name))
    const [{ is, limit, unit } = { is: '', limit: '', unit: '' }] = found.filter(
      it => it !== undefined,
    )
    const cells = found.map(target => {
      if (!target) return '–'
      const figure = `${fixed(target.figure, target.digits)} ${target.unit}`.trim()
      return `${figure} ${isMet(target) ? 'ok' : 'missed'}`
    })
    return [name, `${is} ${limit} ${unit}`.trim(), ...cells]
  })
  return { title, head, rows }
}
