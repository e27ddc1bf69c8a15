// Measures logins and other requests while more logins arrive than the cores can hash.
import { resolve } from 'node:path'
import { describeStatuses, type Findings, fixed, type Run, type Target } from '../findings.ts'
import { type Flood, flood, measureCapacity } from '../flood.ts'
import type { Arrival } from '../open-loop.ts'
import { start } from '../processes.ts'
import { rightLogins } from '../seed.ts'
import { deploy } from '../service.ts'
import { quantile } from '../statistics.ts'

const USERS = 5_000
const LOADS = [
  ...[1, 2, 5, 10, 20].map(factor => ({ factor, hasOtherLoad: false })),
  { factor: 10, hasOtherLoad: true },
]
const OTHER_LOAD = resolve(import.meta.dirname, '../intermittent-load.ts')

type Level = ReturnType<typeof summarise> & (typeof LOADS)[number] & { name: string }

/** The capacity is measured before and after each level; the level is compared with the mean of both. */
export async function measureOverload({ isQuick, progress }: Run): Promise<Findings> {
  const warmUpMs = isQuick ? 1_000 : 3_000
  const windowMs = isQuick ? 4_000 : 20_000
  const capacityMs = isQuick ? 3_000 : 10_000
  const deployment = await deploy('sqlite', USERS)
  const service = await deployment.start()
  const request = rightLogins(USERS)
  const levels: Level[] = []
  progress('capacity')
  let before = await measureCapacity(service, request, capacityMs)
  for (const { factor, hasOtherLoad } of LOADS) {
    const name = `${factor} ×${hasOtherLoad ? ' and another process' : ''}`
    progress(`${name}: ${fixed(factor * before, 1)} logins per second`)
    const other = hasOtherLoad ? start([process.execPath, OTHER_LOAD], {}) : null
    const found = await flood(service, request, factor * before, warmUpMs + windowMs)
    await other?.stop()
    progress(`capacity after ${name}`)
    const after = await measureCapacity(service, request, capacityMs)
    const capacity = (before + after) / 2
    levels.push({ name, factor, hasOtherLoad, ...summarise(capacity, found, warmUpMs, windowMs) })
    before = after
  }
  await deployment.remove()
  return toFindings(levels, windowMs)
}

function summarise(capacity: number, found: Flood, warmUpMs: number, windowMs: number) {
  const isCounted = ({ endedMs }: Arrival) => endedMs >= warmUpMs && endedMs < warmUpMs + windowMs
  const counted = found.logins.filter(isCounted)
  const latencies = (arrivals: Arrival[], status: number) =>
    arrivals.filter(arrival => arrival.status === status).map(({ latencyMs }) => latencyMs)
  const others = counted.filter(({ status }) => status !== 200 && status !== 503)
  const livez = latencies(found.livez, 200)
  const refresh = latencies(found.refreshes, 200)
  return {
    capacity,
    goodputPerSecond: (latencies(counted, 200).length * 1_000) / windowMs,
    admitted: spread(latencies(counted, 200)),
    refused: spread(latencies(counted, 503)),
    others: describeStatuses(others.map(({ status }) => status)),
    livez: { ...spread(livez), failed: found.livez.length - livez.length },
    refresh: { ...spread(refresh), failed: found.refreshes.length - refresh.length },
    generatorCpuShare: found.generatorCpuShare,
  }
}

function spread(latenciesMs: number[]) {
  return {
    count: latenciesMs.length,
    p50Ms: quantile(latenciesMs, 0.5),
    p99Ms: quantile(latenciesMs, 0.99),
    maxMs: quantile(latenciesMs, 1),
  }
}

function toFindings(levels: Level[], windowMs: number): Findings {
  const pair = (values: { p50Ms: number; p99Ms: number }) =>
    `${fixed(values.p50Ms)} / ${fixed(values.p99Ms)} ms`
  const unanswered = (failed: number) => (failed > 0 ? `, ${failed} failed` : '')
  return {
    title: 'more logins than can be hashed',
    tables: [
      {
        title: `SQLite, ${windowMs / 1_000} s each, p50 / p99 from the moment a login was due`,
        head: [
          'offered ÷ capacity',
          'capacity /s',
          'goodput ÷ capacity',
          'admitted',
          'time to refuse',
          'refused',
          'other answers',
        ],
        rows: levels.map(level => [
          level.name,
          fixed(level.capacity, 2),
          fixed(level.goodputPerSecond / level.capacity, 3),
          pair(level.admitted),
          pair(level.refused),
          String(level.refused.count),
          level.others || 'none',
        ]),
      },
      {
        title: 'Everything else meanwhile',
        head: [
          'offered ÷ capacity',
          '/livez p50 / p99',
          '/livez longest',
          'refresh p50 / p99',
          'generator',
        ],
        rows: levels.map(({ name, livez, refresh, generatorCpuShare }) => [
          name,
          pair(livez) + unanswered(livez.failed),
          `${fixed(livez.maxMs)} ms`,
          pair(refresh) + unanswered(refresh.failed),
          `${fixed(generatorCpuShare * 100)} % of a core`,
        ]),
      },
    ],
    targets: levels.flatMap(targetsOf),
  }
}

function targetsOf(level: Level): Target[] {
  const { name, factor, hasOtherLoad, capacity, goodputPerSecond } = level
  const goodput = (limit: number): Target => ({
    name: `goodput ÷ capacity at ${name}`,
    figure: goodputPerSecond / capacity,
    digits: 3,
    unit: '',
    is: 'at least',
    limit,
  })
  const time = (what: string, figure: number, limit: number, digits = 0): Target => ({
    name: `${what} at ${name}`,
    figure,
    digits,
    unit: 'ms',
    is: 'below',
    limit,
  })
  const admitted = (limit: number) => time('p99 of the admitted', level.admitted.p99Ms, limit)
  if (hasOtherLoad) return [admitted(1_250)]
  if (factor === 1) return [goodput(0.9)]
  if (factor === 20) return [admitted(1_000)]
  if (factor !== 10) return []
  return [
    goodput(0.9),
    admitted(1_000),
    time('p50 of the time to refuse', level.refused.p50Ms, 20, 1),
    time('p99 of /livez', level.livez.p99Ms, 100, 1),
  ]
}
