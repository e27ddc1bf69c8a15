// Compares logins per second with the bare hash rate of the cores.
import { availableParallelism } from 'node:os'
import { startBareBcrypt } from '../bare-bcrypt.ts'
import { demandOnly, IMPATIENT_MS, latenciesMs, runClosedLoop, steadyRate } from '../closed-loop.ts'
import { type Findings, fixed, type Run } from '../findings.ts'
import { COST, rightLogins } from '../seed.ts'
import { deploy } from '../service.ts'
import { median, quantile } from '../statistics.ts'

const USERS = 1_000
const CONNECTIONS = 2 * availableParallelism()
const ENGINES = ['sqlite', 'postgres'] as const

/** Measures in short slices in turn, so that a disturbance of the machine affects all of them. */
export async function measureCeiling({ isQuick, progress }: Run): Promise<Findings> {
  const rounds = isQuick ? 2 : 8
  const sliceMs = isQuick ? 2_000 : 6_000
  const bare = startBareBcrypt()
  const deployments = await Promise.all(ENGINES.map(engine => deploy(engine, USERS)))
  const services = await Promise.all(deployments.map(({ start }) => start()))
  const request = rightLogins(USERS)
  const bareRates: number[] = []
  const measured = ENGINES.map(engine => ({
    engine,
    rates: [] as number[],
    latencies: [] as number[],
  }))

  for (let round = 1; round <= rounds; round++) {
    progress(`round ${round} of ${rounds}: the bare hash`)
    bareRates.push((await bare.saturate(COST, sliceMs)).perSecond)
    for (const [index, { engine, rates, latencies }] of measured.entries()) {
      progress(`round ${round} of ${rounds}: logins on ${engine}`)
      const target = services[index]?.target
      if (!target) continue
      const lanes = await runClosedLoop({
        target,
        connections: CONNECTIONS,
        durationMs: sliceMs,
        request,
        retryWithinMs: IMPATIENT_MS,
      })
      demandOnly(lanes, 200, 503)
      rates.push(steadyRate(lanes, 200))
      latencies.push(...latenciesMs(lanes, 200))
    }
  }
  await bare.stop()
  await Promise.all(deployments.map(({ remove }) => remove()))

  const ceiling = median(bareRates)
  return {
    title: `logins per second against the bare hash of cost ${COST}`,
    tables: [
      {
        title: `Median of ${rounds} slices of ${sliceMs / 1_000} s, ${CONNECTIONS} connections`,
        head: ['', 'per second', 'of the ceiling', 'lowest … highest slice', 'p50', 'p99'],
        rows: [
          ['bcrypt alone, on all cores', fixed(ceiling, 2), '1', range(bareRates), '', ''],
          ...measured.map(({ engine, rates, latencies }) => [
            `logins, ${engine}`,
            fixed(median(rates), 2),
            fixed(median(rates) / ceiling, 3),
            range(rates),
            `${fixed(median(latencies))} ms`,
            `${fixed(quantile(latencies, 0.99))} ms`,
          ]),
        ],
      },
    ],
    targets: measured.map(({ engine, rates }) => ({
      name: `logins ÷ ceiling, ${engine}`,
      figure: median(rates) / ceiling,
      digits: 3,
      unit: '',
      is: 'at least',
      limit: 0.95,
    })),
    plots: [],
    measured: {
      bareRates,
      services: measured.map(({ engine, rates }) => ({ engine, rates })),
    },
  }
}

function range(rates: number[]): string {
  return `${fixed(Math.min(...rates), 2)} … ${fixed(Math.max(...rates), 2)}`
}
