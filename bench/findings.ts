// The results of a section: figures, tables, targets and plots. All outputs are made from them.

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

export type Plot = { file: string; title: string; svg: string }

export type Findings = {
  title: string
  tables: Table[]
  targets: Target[]
  plots: Plot[]
  /** The raw figures of the tables. */
  measured: unknown
}

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

export function targetTable(targets: Target[]): Table {
  return {
    title: 'Targets',
    head: ['figure', 'measured', 'target', ''],
    rows: targets.map(target => {
      const { name, figure, digits, unit, is, limit } = target
      const verdict = isMet(target) ? 'ok' : 'missed'
      return [
        name,
        `${fixed(figure, digits)} ${unit}`.trim(),
        `${is} ${limit} ${unit}`.trim(),
        verdict,
      ]
    }),
  }
}

/** A dash for a value that was not measured. */
export function fixed(value: number, digits = 0): string {
  return Number.isFinite(value) ? value.toFixed(digits) : '–'
}

/** How often each status was answered, in words. */
export function describeStatuses(statuses: number[]): string {
  const counts = new Map<number, number>()
  for (const status of statuses) counts.set(status, (counts.get(status) ?? 0) + 1)
  return [...counts].map(([status, count]) => `${count} × ${status || 'no answer'}`).join(', ')
}
