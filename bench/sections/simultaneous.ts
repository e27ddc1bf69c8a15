// Sends logins at the same moment to an idle service, and counts how many it answers within a second.
import { availableParallelism } from 'node:os'
import { loopbackAddress } from '../clients.ts'
import { Connection } from '../connection.ts'
import { type Findings, fixed, type Run } from '../findings.ts'
import { COST, emailOf, loginRequest } from '../seed.ts'
import { deploy } from '../service.ts'

/** Logins at the same moment, per core. */
const PER_CORE = [1, 2, 3, 4, 5, 6]
/** All of these must succeed. */
const JUDGED_PER_CORE = 4
const LIMIT_MS = 1_000

/** The login of each caller. */
type Repetition = { status: number; latencyMs: number }[]

export async function measureSimultaneous({ isQuick, progress }: Run): Promise<Findings> {
  const repetitions = isQuick ? 3 : 10
  const counts = PER_CORE.map(perCore => perCore * availableParallelism())
  const most = Math.max(...counts)
  const deployment = await deploy('sqlite', most)
  const { target } = await deployment.start()
  const callers = Array.from({ length: most }, (_, index) => {
    const connection = new Connection(target, loopbackAddress(index))
    const request = loginRequest(emailOf(index))
    return async () => {
      const startMs = performance.now()
      const { status } = await connection.send(request)
      return { status, latencyMs: performance.now() - startMs }
    }
  })
  // The first login of each caller opens its connection.
  for (const login of callers) await login()

  const measured: { count: number; found: Repetition[] }[] = []
  for (const count of counts) {
    progress(`${repetitions} × ${count} logins`)
    const found: Repetition[] = []
    for (let repetition = 0; repetition < repetitions; repetition++) {
      found.push(await Promise.all(callers.slice(0, count).map(login => login())))
    }
    measured.push({ count, found })
  }
  await deployment.remove()

  const levels = measured.map(({ count, found }) => {
    const succeeded = found.map(logins => logins.filter(({ status }) => status === 200))
    return {
      count,
      fewest: Math.min(...succeeded.map(logins => logins.length)),
      longestMs: Math.max(...succeeded.flat().map(({ latencyMs }) => latencyMs)),
      complete: succeeded.filter(
        logins => logins.length === count && logins.every(({ latencyMs }) => latencyMs <= LIMIT_MS),
      ).length,
    }
  })
  return {
    title: `logins of cost ${COST} at the same moment`,
    tables: [
      {
        title: `SQLite, ${repetitions} repetitions each`,
        head: [
          'logins',
          'succeeded, fewest',
          'longest latency',
          `repetitions with all within ${LIMIT_MS} ms`,
        ],
        rows: levels.map(({ count, fewest, longestMs, complete }) => [
          String(count),
          String(fewest),
          `${fixed(longestMs)} ms`,
          String(complete),
        ]),
      },
    ],
    targets: levels
      .filter(({ count }) => count === JUDGED_PER_CORE * availableParallelism())
      .map(({ count, complete }) => ({
        name: `repetitions with all of ${count} within ${LIMIT_MS} ms`,
        figure: complete,
        digits: 0,
        unit: '',
        is: 'at least',
        limit: repetitions,
      })),
  }
}
