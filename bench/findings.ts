// The results of a section: tables and targets, printed as Markdown that can be pasted into a document.

export type Table = { title: string; head: string[]; rows: string[][] }

export type Target = {
  name: string
  figure: number
  /** Significant digits after the decimal point. */
  digits: number
  unit: string
  is: 'at least' | 'at most' | 'below'
  limit: number
}

export type Findings = { title: string; tables: Table[]; targets: Target[] }

export type Section = (run: Run) => Promise<Findings>

export type Run = {
  /** A short trial run, whose figures are not reliable. */
  isQuick: boolean
  /** Shows the current step. */
  progress: (text: string) => void
}

export function isMet({ figure, is, limit }: Target): boolean {
  if (is === 'at least') return figure >= limit
  return is === 'at most' ? figure <= limit : figure < limit
}

export function toMarkdown({ title, tables, targets }: Findings): string {
  const shown = targets.length > 0 ? [...tables, targetTable(targets)] : tables
  return `### ${title}\n\n${shown.map(tableText).join('\n')}`
}

function tableText({ title, head, rows }: Table): string {
  const line = (row: string[]) => `| ${row.join(' | ')} |`
  const rule = `|---|${'--:|'.repeat(head.length - 1)}`
  return `${title}:\n\n${[line(head), rule, ...rows.map(line)].join('\n')}\n`
}

function targetTable(targets: Target[]): Table {
  return {
    title: 'Targets',
    head: ['figure', 'measured', 'target', ''],
    rows: targets.map(target => {
      const { name, figure, digits, unit, is, limit } = target
      const measured = `${fixed(figure, digits)} ${unit}`.trim()
      return [name, measured, `${is} ${limit} ${unit}`.trim(), isMet(target) ? 'ok' : 'missed']
    }),
  }
}

/** A dash for a value that was not measured. */
export function fixed(value: number, digits = 0): string {
  return Number.isFinite(value) ? value.toFixed(digits) : '–'
}

/** How often each status was answered, in words. */
export function describeStatuses(statuses: number[]): string {
  return tally(statuses.map(status => status || 'no answer'))
}

/** How often each value occurs. */
export function tally(values: (string | number)[]): string {
  const counts = new Map<string | number, number>()
  for (const value of values) counts.set(value, (counts.get(value) ?? 0) + 1)
  return [...counts].map(([value, count]) => `${count} × ${value}`).join(', ')
}
