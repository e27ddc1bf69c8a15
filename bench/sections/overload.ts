// Measures logins and other requests while more logins arrive than the cores can hash.
import { describeStatuses, type Findings, fixed, type Run } from '../findings.ts'
import { type Flood, flood, measureCapacity } from '../flood.ts'
import type { Arrival } from '../open-loop.ts'
import { linePlot } from '../plot.ts'
import { rightLogins } from '../seed.ts'
import { deploy } from '../service.ts'
import { quantile } from '../statistics.ts'

const USERS = 5_000
const FACTORS = [1, 2, 5, 10, 20]
/** The load that the targets apply to. */
const JUDGED_FACTOR = 10

type Level = ReturnType<typeof summarise>

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
  for (const factor of FACTORS) {
    progress(
      `${factor} × ${fixed(before, 1)} logins per second for ${(warmUpMs + windowMs) / 1_000} s`,
    )
    const found = await flood(service, request, factor * before, warmUpMs + windowMs)
    progress(`capacity after ${factor} ×`)
    const after = await measureCapacity(service, request, capacityMs)
    levels.push(summarise(factor, (before + after) / 2, found, warmUpMs, windowMs))
    before = after
  }
  await deployment.remove()
  return toFindings(levels, windowMs)
}

function summarise(
  factor: number,
  capacity: number,
  found: Flood,
  warmUpMs: number,
  windowMs: number,
) {
  const isCounted = ({ endedMs }: Arrival) => endedMs >= warmUpMs && endedMs < warmUpMs + windowMs
  const counted = found.logins.filter(isCounted)
  const latencies = (arrivals: Arrival[], status: number) =>
    arrivals.filter(arrival => arrival.status === status).map(({ latencyMs }) => latencyMs)
  const others = counted.filter(({ status }) => status !== 200 && status !== 503)
  const livez = latencies(found.livez, 200)
  const refresh = latencies(found.refreshes, 200)
  return {
    factor,
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
  const judged = levels.find(({ factor }) => factor === JUDGED_FACTOR)
  const at = (name: string) => `${name} at ${JUDGED_FACTOR} ×`
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
          `${level.factor} ×`,
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
        rows: levels.map(({ factor, livez, refresh, generatorCpuShare }) => [
          `${factor} ×`,
          pair(livez) + unanswered(livez.failed),
          `${fixed(livez.maxMs)} ms`,
          pair(refresh) + unanswered(refresh.failed),
          `${fixed(generatorCpuShare * 100)} % of a core`,
        ]),
      },
    ],
    targets: judged
      ? [
          {
            name: at('goodput ÷ capacity'),
            figure: judged.goodputPerSecond / judged.capacity,
            digits: 3,
            unit: '',
            is: 'at least',
            limit: 0.95,
          },
          {
            name: at('p99 of the admitted'),
            figure: judged.admitted.p99Ms,
            digits: 0,
            unit: 'ms',
            is: 'below',
            limit: 1_000,
          },
          {
            name: at('p50 of the time to refuse'),
            figure: judged.refused.p50Ms,
            digits: 1,
            unit: 'ms',
            is: 'below',
            limit: 20,
          },
          {
            name: at('p99 of /livez'),
            figure: judged.livez.p99Ms,
            digits: 1,
            unit: 'ms',
            is: 'below',
            limit: 100,
          },
        ]
      : [],
    plots: plotsOf(levels),
    measured: levels,
  }
}

function plotsOf(levels: Level[]) {
  const points = (y: (level: Level) => number) =>
    levels.map(level => ({ x: level.factor, y: y(level) }))
  return [
    {
      file: 'overload-goodput.svg',
      title: 'Goodput over load',
      svg: linePlot({
        title: 'Logins that succeed, by what is offered',
        x: { label: 'offered ÷ capacity', scale: 'log' },
        y: { label: 'goodput ÷ capacity', scale: 'linear' },
        lines: [{ name: 'goodput', points: points(l => l.goodputPerSecond / l.capacity) }],
      }),
    },
    {
      file: 'overload-latency.svg',
      title: 'Latency over load',
      svg: linePlot({
        title: 'p99 from the moment it was due, by what is offered',
        x: { label: 'offered ÷ capacity', scale: 'log' },
        y: { label: 'milliseconds', scale: 'log' },
        lines: [
          { name: 'login admitted', points: points(l => l.admitted.p99Ms) },
          { name: 'login refused', points: points(l => l.refused.p99Ms) },
          { name: 'refresh', points: points(l => l.refresh.p99Ms) },
          { name: '/livez', points: points(l => l.livez.p99Ms) },
        ],
      }),
    },
  ]
}
