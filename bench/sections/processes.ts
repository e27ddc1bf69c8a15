// Compares two processes of the service on one PostgreSQL, which share the callers, with one process.
import {
  demandOnly,
  IMPATIENT_MS,
  type Lanes,
  runClosedLoop,
  SATURATING,
  steadyRate,
} from '../closed-loop.ts'
import type { Target } from '../connection.ts'
import { type Findings, fixed, type Run } from '../findings.ts'
import { COST, rightLogins } from '../seed.ts'
import { CHEAP_NATIVE, deploy } from '../service.ts'
import { callInTurns, ONE_ISSUER, openSessions, refreshes, SESSIONS } from '../session-callers.ts'
import { median } from '../statistics.ts'

/** What one of `processes` processes gets of the callers. */
type Load = (target: Target, index: number, processes: number) => Promise<Lanes>

export async function measureProcesses({ isQuick, progress }: Run): Promise<Findings> {
  const rounds = isQuick ? 2 : 6
  const durationMs = isQuick ? 2_000 : 6_000
  const deployment = await deploy('postgres', SESSIONS)
  progress(`opening ${SESSIONS} sessions`)
  const opening = await deployment.start({ ...CHEAP_NATIVE, ...ONE_ISSUER })
  const callers = refreshes(await openSessions(opening.target))
  await opening.stop()
  const both = [await deployment.start(ONE_ISSUER), await deployment.start(ONE_ISSUER)]
  const request = rightLogins(SESSIONS)
  const loads: Record<string, Load> = {
    refreshes: (target, index, processes) =>
      callInTurns(
        target,
        callers.filter((_, lane) => lane % processes === index),
        durationMs,
      ),
    [`logins, cost ${COST}`]: (target, _, processes) =>
      runClosedLoop({
        target,
        connections: SATURATING / processes,
        durationMs,
        request,
        retryWithinMs: IMPATIENT_MS,
      }),
  }
  const measured = Object.entries(loads).map(([name, load]) => ({
    name,
    load,
    one: [] as number[],
    two: [] as number[],
  }))
  for (let round = 0; round <= rounds; round++) {
    for (const { name, load, one, two } of measured) {
      for (const [rates, used] of [[one, both.slice(0, 1)] as const, [two, both] as const]) {
        const step = round === 0 ? 'warming up' : `round ${round} of ${rounds}`
        progress(`${step}: ${name}, processes: ${used.length}`)
        const loading = used.map(({ target }, index) => load(target, index, used.length))
        const lanes = (await Promise.all(loading)).flat()
        demandOnly(lanes, 200, 503)
        if (round > 0) rates.push(steadyRate(lanes, 200))
      }
    }
  }
  await deployment.remove()
  return {
    title: 'two processes on one PostgreSQL',
    tables: [
      {
        title: `Per second, median of ${rounds} slices of ${durationMs / 1_000} s, the same callers`,
        head: ['', 'one process', 'two processes', 'two ÷ one'],
        rows: measured.map(({ name, one, two }) => [
          name,
          fixed(median(one), 1),
          fixed(median(two), 1),
          fixed(median(two) / median(one), 2),
        ]),
      },
    ],
    targets: [],
    plots: [],
    measured: measured.map(({ name, one, two }) => ({ name, one, two })),
  }
}
