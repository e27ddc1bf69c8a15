// What the threads of a hasher have to do, and how much more they can take.
import type { Hasher, Hashing } from '../bcrypt/hasher.ts'
import { forecast, type ThreadLoad, type Work } from './forecast.ts'

/** Reserved for what the forecast cannot know: other load on the machine, the database, the network. */
export const MARGIN_MS = 120
/** More logins at the same moment are not counted: at a low cost there would be thousands. */
export const MOST_COUNTED = 100

export type QueueLimits = { cost: number; loginTimeMs: number }

/** What each thread computes, and how many hashes at a time it may compute so that one ends in time. */
export function loadsOf<W extends Work & { hashing: Hashing | null }>(
  hasher: Hasher,
  { cost, loginTimeMs }: QueueLimits,
  works: W[],
): ThreadLoad<W>[] {
  const loads = Array.from({ length: hasher.threads }, (_, thread): ThreadLoad<W> => {
    const roundMs = hasher.roundMs(thread)
    const inTime = roundMs.filter(ms => 2 ** cost * ms + MARGIN_MS <= loginTimeMs)
    return { running: [], roundMs, lanes: Math.max(1, inTime.length) }
  })
  for (const work of works) {
    if (!work.hashing) continue
    work.roundsLeft = work.hashing.roundsLeft()
    loads[work.hashing.thread]?.running.push(work)
  }
  return loads
}

/** The same thread, with rounds that take as long as if all its lanes were busy. */
export function asIfBusy<W extends Work>(thread: ThreadLoad<W>): ThreadLoad<W> {
  const busyMs = thread.roundMs[thread.lanes - 1] ?? 0
  return { ...thread, roundMs: thread.roundMs.map(ms => Math.max(ms, busyMs)) }
}

export function isIdle({ running }: ThreadLoad<Work>): boolean {
  return running.length === 0
}

/**
 * How many hashes are computed at a time, and how many logins that arrive at the same moment are all answered
 * in time; the latter is not counted beyond MOST_COUNTED.
 */
export function capacityOf(
  hasher: Hasher,
  limits: QueueLimits,
): { hashes: number; logins: number } {
  const threads: ThreadLoad<Work>[] = loadsOf(hasher, limits, [])
  const isInTime = (logins: number) => {
    const waiting = Array.from({ length: logins }, () => ({ roundsLeft: 2 ** limits.cost }))
    const longestMs = Math.max(...forecast(threads, waiting).values())
    return longestMs + MARGIN_MS <= limits.loginTimeMs
  }
  let logins = 0
  const hashes = threads.reduce((sum, { lanes }) => sum + lanes, 0)
  const most = Math.max(MOST_COUNTED, hashes + 1)
  while (logins < most && isInTime(logins + 1)) logins++
  return { hashes, logins }
}
