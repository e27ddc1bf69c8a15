// Compares logins per second and latency with both password engines, and with the bare hash rate of the cores.
import { availableParallelism } from 'node:os'
import { startBareBcrypt } from '../bare-bcrypt.ts'
import {
  demandOnly,
  IMPATIENT_MS,
  latenciesMs,
  runClosedLoop,
  SATURATING,
  steadyRate,
} from '../closed-loop.ts'
import { type Findings, fixed, type Run } from '../findings.ts'
import { COST, rightLogins } from '../seed.ts'
import { deploy } from '../service.ts'
import { median, quantile } from '../statistics.ts'

const USERS = 1_000
/** On every processor: each thread uses the kernel that is faster there. */
const LANES_LIMIT = 1.75
const SERVICES = [
  { password: 'lanes', engine: 'sqlite', saturating: SATURATING, limit: LANES_LIMIT },
  { password: 'lanes', engine: 'postgres', saturating: SATURATING, limit: LANES_LIMIT },
  { password: 'native', engine: 'sqlite', saturating: 2 * availableParallelism(), limit: 0.95 },
] as const
/** Three hashes per core, which a thread computes at a time on every processor that was tried; and a single login. */
const IN_FLIGHT = [3 * availableParallelism(), 1]

/** Measures in short slices in turn, so that a disturbance of the machine affects all of them. */
export async function measureCeiling({ isQuick, progress }: Run): Promise<Findings> {
  const rounds = isQuick ? 2 : 8
  const sliceMs = isQuick ? 2_000 : 6_000
  const bare = startBareBcrypt()
  const services = await Promise.all(
    SERVICES.map(async settings => {
      const { start, remove } = await deploy(settings.engine, USERS)
      const { target } = await start({ PASSWORD_ENGINE: settings.password })
      return { ...settings, name: `${settings.password}, ${settings.engine}`, target, remove }
    }),
  )
  const request = rightLogins(USERS)
  const bareRates: number[] = []
  const load = (service: (typeof services)[number], connections: number) => ({
    ...service,
    connections,
    rates: [] as number[],
    latencies: [] as number[],
    refused: 0,
  })
  const saturated = services.map(service => load(service, service.saturating))
  const onSqlite = services.filter(({ engine }) => engine === 'sqlite')
  const compared = IN_FLIGHT.flatMap(count => onSqlite.map(service => load(service, count)))

  for (let round = 1; round <= rounds; round++) {
    progress(`round ${round} of ${rounds}: the bare hash`)
    bareRates.push(await bare.saturate(COST, sliceMs))
    for (const measured of [...saturated, ...compared]) {
      const { name, target, connections } = measured
      progress(`round ${round} of ${rounds}: ${name}, ${connections} connections`)
      const lanes = await runClosedLoop({
        target,
        connections,
        durationMs: sliceMs,
        request,
        retryWithinMs: IMPATIENT_MS,
      })
      demandOnly(lanes, 200, 503)
      measured.rates.push(steadyRate(lanes, 200))
      measured.latencies.push(...latenciesMs(lanes, 200))
      measured.refused += latenciesMs(lanes, 503).length
    }
  }
  await bare.stop()
  await Promise.all(services.map(({ remove }) => remove()))

  const ceiling = median(bareRates)
  const p50Ms = (password: string, count: number) =>
    median(
      compared.find(found => found.password === password && found.connections === count)
        ?.latencies ?? [],
    )
  const slices = `${rounds} slices of ${sliceMs / 1_000} s`
  return {
    title: `logins per second against the bare hash of cost ${COST}`,
    tables: [
      {
        title: `Saturation, median of ${slices}`,
        head: [
          '',
          'connections',
          'per second',
          'of the ceiling',
          'lowest … highest slice',
          'p50',
          'p99',
        ],
        rows: [
          ['bcrypt alone, on all cores', '', fixed(ceiling, 2), '1', range(bareRates), '', ''],
          ...saturated.map(({ name, connections, rates, latencies }) => [
            `logins, ${name}`,
            String(connections),
            fixed(median(rates), 2),
            fixed(median(rates) / ceiling, 3),
            range(rates),
            `${fixed(median(latencies))} ms`,
            `${fixed(quantile(latencies, 0.99))} ms`,
          ]),
        ],
      },
      {
        title: `Latency with few logins in flight, ${slices}`,
        head: ['', 'in flight', 'per second', 'p50', 'p99', 'refused'],
        rows: compared.map(({ name, connections, rates, latencies, refused }) => [
          `logins, ${name}`,
          String(connections),
          fixed(median(rates), 2),
          `${fixed(median(latencies))} ms`,
          `${fixed(quantile(latencies, 0.99))} ms`,
          String(refused),
        ]),
      },
    ],
    targets: [
      ...saturated.map(({ name, rates, limit }) => ({
        name: `logins ÷ ceiling, ${name}`,
        figure: median(rates) / ceiling,
        digits: 3,
        unit: '',
        is: 'at least' as const,
        limit,
      })),
      ...IN_FLIGHT.map(count => ({
        name: `p50 of lanes ÷ native, ${count} in flight`,
        figure: p50Ms('lanes', count) / p50Ms('native', count),
        digits: 3,
        unit: '',
        ...(count === 1
          ? { is: 'at most' as const, limit: 1.05 }
          : { is: 'below' as const, limit: 1 }),
      })),
    ],
  }
}

function range(rates: number[]): string {
  return `${fixed(Math.min(...rates), 2)} … ${fixed(Math.max(...rates), 2)}`
}
