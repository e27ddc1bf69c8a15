// Five minutes at ten times the capacity: memory must not grow, and no failure may be counted.
import { describeStatuses, type Findings, fixed, type Run } from '../findings.ts'
import { flood, measureCapacity } from '../flood.ts'
import { linePlot } from '../plot.ts'
import { rightLogins } from '../seed.ts'
import { type Deployment, deploy } from '../service.ts'
import { median } from '../statistics.ts'

const USERS = 5_000
const FACTOR = 10
const CAPACITY_MS = 10_000
/** Samples of the memory. */
const SAMPLES_PER_MINUTE = 6
const ENGINES = ['sqlite', 'postgres'] as const

type Soak = Awaited<ReturnType<typeof soak>>

export async function measureSoak({ isQuick, progress }: Run): Promise<Findings> {
  // Five minutes. The first is not counted, because memory grows until it has settled.
  const minuteMs = isQuick ? 4_000 : 60_000
  const soaks: Soak[] = []
  for (const engine of ENGINES) {
    const deployment = await deploy(engine, USERS)
    soaks.push(await soak(deployment, minuteMs, text => progress(`${engine}: ${text}`)))
    await deployment.remove()
  }
  return {
    title: `five minutes at ${FACTOR} × the capacity`,
    tables: [
      {
        title: `All passwords are right; medians of resident memory over a minute of ${minuteMs / 1_000} s`,
        head: [
          'engine',
          'second minute',
          'last minute',
          'answers',
          'failures counted',
          'pending left',
        ],
        rows: soaks.map(
          ({ engine, secondMinuteMiB, lastMinuteMiB, answers, failures, pending }) => [
            engine,
            `${fixed(secondMinuteMiB)} MiB`,
            `${fixed(lastMinuteMiB)} MiB`,
            answers,
            String(failures),
            String(pending),
          ],
        ),
      },
    ],
    targets: soaks.flatMap(({ engine, secondMinuteMiB, lastMinuteMiB, failures, pending }) => [
      {
        name: `memory of the last ÷ second minute, ${engine}`,
        figure: lastMinuteMiB / secondMinuteMiB,
        digits: 3,
        unit: '',
        is: 'at most' as const,
        limit: 1.1,
      },
      {
        name: `failures counted or pending afterwards, ${engine}`,
        figure: failures + pending,
        digits: 0,
        unit: '',
        is: 'at most' as const,
        limit: 0,
      },
    ]),
    plots: [
      {
        file: 'soak-memory.svg',
        title: 'Resident memory under overload',
        svg: linePlot({
          title: `Resident memory at ${FACTOR} × the capacity`,
          x: { label: 'seconds', scale: 'linear' },
          y: { label: 'MiB', scale: 'linear' },
          lines: soaks.map(({ engine, memory }) => ({
            name: engine,
            points: memory.map(({ second, residentMiB }) => ({ x: second, y: residentMiB })),
          })),
        }),
      },
    ],
    measured: soaks,
  }
}

async function soak(deployment: Deployment, minuteMs: number, progress: (text: string) => void) {
  const { engine, database } = deployment
  const service = await deployment.start()
  const request = rightLogins(USERS)
  progress('capacity')
  const capacity = await measureCapacity(service, request, CAPACITY_MS)
  const memory: { second: number; residentMiB: number }[] = []
  const startMs = performance.now()
  const sampling = setInterval(async () => {
    const residentMiB = await service.residentMiB()
    const second = Math.round((performance.now() - startMs) / 1_000)
    memory.push({ second, residentMiB })
    progress(`${second} of ${(5 * minuteMs) / 1_000} s, ${fixed(residentMiB)} MiB`)
  }, minuteMs / SAMPLES_PER_MINUTE)
  const { logins } = await flood(service, request, FACTOR * capacity, 5 * minuteMs)
  clearInterval(sampling)

  const [throttle] = await database.rows(
    'select coalesce(sum(failures), 0) as failures, coalesce(sum(pending), 0) as pending from login_throttle',
  )
  const [users] = await database.rows('select sum(failed_login_attempts) as failures from users')
  const minute = (index: number) =>
    median(
      memory
        .slice(index * SAMPLES_PER_MINUTE, (index + 1) * SAMPLES_PER_MINUTE)
        .map(({ residentMiB }) => residentMiB),
    )
  return {
    engine,
    capacity,
    memory,
    secondMinuteMiB: minute(1),
    lastMinuteMiB: minute(4),
    answers: describeStatuses(logins.map(({ status }) => status)),
    failures: Number(throttle?.failures) + Number(users?.failures),
    pending: Number(throttle?.pending),
  }
}
