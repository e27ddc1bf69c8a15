// What a soak samples of a service and its database, and how it changes over time.
import { statSync } from 'node:fs'
import type { TestDatabase } from '../support/engines.ts'
import { scrape } from '../support/metrics.ts'

const MIB = 1_048_576
const HOUR_S = 3_600

export type SoakSample = Record<Figure, number> & { second: number }

/** The figures with their units, as the report names them. */
export const FIGURES = {
  residentMiB: 'resident memory, MiB',
  heapMiB: 'heap in use, MiB',
  descriptors: 'descriptors',
  handles: 'handles of the event loop',
  lagMs: 'lag of the event loop (p99), ms',
  tablesMiB: 'tables and indexes, MiB',
  walMiB: 'write-ahead log, MiB',
}
export type Figure = keyof typeof FIGURES

export async function takeSample(
  opsPort: string,
  database: TestDatabase,
  second: number,
): Promise<SoakSample> {
  const series = await scrape(opsPort)
  const gauge = (name: string) => series.get(name) ?? Number.NaN
  const { tables, wal } = await bytesOf(database)
  return {
    second,
    residentMiB: gauge('process_resident_memory_bytes') / MIB,
    heapMiB: gauge('nodejs_heap_size_used_bytes') / MIB,
    descriptors: gauge('process_open_fds'),
    handles: gauge('nodejs_active_handles_total'),
    lagMs: gauge('nodejs_eventloop_lag_p99_seconds') * 1_000,
    tablesMiB: tables / MIB,
    walMiB: wal / MIB,
  }
}

async function bytesOf({ config, rows }: TestDatabase): Promise<{ tables: number; wal: number }> {
  if (config.engine === 'sqlite') {
    const sizeOf = (file: string) => statSync(file, { throwIfNoEntry: false })?.size ?? 0
    return { tables: sizeOf(config.file), wal: sizeOf(`${config.file}-wal`) }
  }
  const [row] = await rows(`select pg_database_size(current_database()) as tables,
    (select sum(size) from pg_ls_waldir()) as wal`)
  return { tables: Number(row?.tables), wal: Number(row?.wal) }
}

/** The mean of the second half, and how much the figure grows in an hour by the line of least squares through it. */
export function trendOf(samples: SoakSample[], figure: Figure): { mean: number; perHour: number } {
  const half = samples.slice(Math.floor(samples.length / 2))
  const meanOf = (values: number[]) => values.reduce((sum, value) => sum + value, 0) / values.length
  const meanSecond = meanOf(half.map(({ second }) => second))
  const mean = meanOf(half.map(each => each[figure]))
  const covariance = meanOf(half.map(each => (each.second - meanSecond) * (each[figure] - mean)))
  const variance = meanOf(half.map(({ second }) => (second - meanSecond) ** 2))
  return { mean, perHour: (covariance / variance) * HOUR_S }
}
