// The order of attempts, found one after the other, as a model that shares no code with the service.
import type { HashJob } from '../../src/bcrypt/hasher.ts'

export type ModelAttempt = {
  network: number
  client: number
  account: number
  hasPriority: boolean
  finishByMs: number
  job: HashJob
}

const LEVELS: ((attempt: ModelAttempt) => string)[] = [
  ({ network }) => `network ${network}`,
  ({ client }) => `client ${client}`,
  ({ client, account }) => `account ${account} of ${client}`,
]

/** The attempts that wait, one after the other. */
export function modelOrder(
  attempts: ModelAttempt[],
  isRunning: (job: HashJob) => boolean,
  remembered: ModelAttempt[],
): ModelAttempt[] {
  const waiting = attempts.filter(({ job }) => !isRunning(job))
  const had = [...remembered, ...attempts.filter(({ job }) => isRunning(job))]
  const ordered: ModelAttempt[] = []
  while (waiting.length > 0) {
    const priority = waiting.filter(({ hasPriority }) => hasPriority)
    const next = nextOf(priority.length > 0 ? priority : waiting, had, LEVELS)
    if (!next) break
    waiting.splice(waiting.indexOf(next), 1)
    had.push(next)
    ordered.push(next)
  }
  return ordered
}

/** Of the network that has had the fewest turns, of its client with the fewest, and of its account with the fewest. */
function nextOf(
  waiting: ModelAttempt[],
  had: ModelAttempt[],
  [nameOf, ...inner]: typeof LEVELS,
): ModelAttempt | undefined {
  if (!nameOf) return waiting[0]
  const turnsOf = (attempt: ModelAttempt) => had.filter(it => nameOf(it) === nameOf(attempt)).length
  const groups = Object.values(Object.groupBy(waiting, nameOf))
  const nextOfEach = groups.map(group => nextOf(group ?? [], had, inner))
  return waiting
    .filter(attempt => nextOfEach.includes(attempt))
    .toSorted((a, b) => turnsOf(a) - turnsOf(b))[0]
}
