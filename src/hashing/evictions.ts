// Which attempts have to give way, so that one more can be hashed in time.
import type { Hasher, Hashing, HashJob } from '../bcrypt/hasher.ts'
import { asIfBusy, isIdle, loadsOf, type QueueLimits } from './capacity.ts'
import type { Claim } from './fair-order.ts'
import { forecast, type ThreadLoad, type Work } from './forecast.ts'

/** The part of MARGIN_MS for the time after the hash. */
export const MARGIN_AFTER_MS = 40
/** Forecasts that differ by less are the same. */
export const ROUNDING_MS = 0.01

/** An attempt with a slot: first it is reserved in the database, then it is queued, then hashed. */
export type SlotHolder = Claim &
  Work & {
    finishByMs: number
    queued: {
      sinceMs: number
      job: HashJob
      answer: (digest: Promise<Buffer | null> | null) => void
    } | null
    hashing: Hashing | null
  }

export type Prospects = {
  hasher: Hasher
  limits: QueueLimits
  nowMs: number
  /** How long before `finishByMs` the hash of the newcomer must end. */
  marginMs: number
  /** True if no lane is expected to stay free. */
  isShedding: boolean
}

/**
 * The attempts to evict, so that the newcomer is answered in time and makes no attempt late that has a better
 * claim; null if that is impossible. `holders` are all attempts in the order in which they will be hashed, with
 * the newcomer among them. `weaker` may be evicted, the last one first.
 */
export function findEvictions(
  newcomer: SlotHolder,
  holders: SlotHolder[],
  weaker: Set<SlotHolder>,
  prospects: Prospects,
): { evicted: SlotHolder[]; finishByMs: number } | null {
  const { hasher, limits, nowMs, marginMs, isShedding } = prospects
  const findLate = createLateFinder(newcomer, holders, weaker, prospects)

  /** Evicts, beside those that are stopped, the attempts that wait and would be late. */
  function evictWith(stopped: SlotHolder[]): ReturnType<typeof findEvictions> {
    const evicted = new Set(stopped)
    for (;;) {
      const kept = holders.filter(holder => !evicted.has(holder))
      const threads = loadsOf(hasher, limits, kept)
      const waiting = waitingOf(kept)
      const ownEnds = forecast(isShedding ? threads.map(asIfBusy) : threads, waiting)
      const allowedMs = Math.max(
        newcomer.finishByMs - nowMs - marginMs,
        onIdleThreadMs(newcomer, threads),
      )
      if ((ownEnds.get(newcomer) ?? 0) > allowedMs + ROUNDING_MS) return null
      const late = findLate(kept, isShedding ? forecast(threads, waiting) : ownEnds)
      if (late.size === 0) {
        const finishByMs = Math.max(newcomer.finishByMs, nowMs + allowedMs + marginMs)
        return { evicted: [...evicted], finishByMs }
      }
      const weakest = [...weaker].findLast(holder => late.has(holder))
      if (!weakest || [...late].some(holder => !weaker.has(holder))) return null
      evicted.add(weakest)
    }
  }

  const stoppable = stoppableOf(weaker)
  // At most one per attempt that is being reserved, and the neighbours in one thread.
  const unreserved = holders.filter(isUnreserved).length
  const most = Math.min(stoppable.length, unreserved + hasher.roundMs(0).length - 1)
  for (let count = 0; count <= most; count++) {
    const found = evictWith(stoppable.slice(0, count))
    if (found) return found
  }
  return null
}

/** Finds the attempts that the newcomer makes late, or later than they are without it. */
function createLateFinder(
  newcomer: SlotHolder,
  holders: SlotHolder[],
  weaker: Set<SlotHolder>,
  { hasher, limits, nowMs }: Prospects,
) {
  const others = holders.filter(holder => holder !== newcomer)
  let endsWithout: Map<SlotHolder, number> | null = null

  function isDelayed(holder: SlotHolder, endMs: number): boolean {
    const isLate = endMs > holder.finishByMs - nowMs - MARGIN_AFTER_MS + ROUNDING_MS
    // A weaker attempt that is being reserved is checked again when it is queued.
    if (!isLate || (isUnreserved(holder) && weaker.has(holder))) return false
    endsWithout ??= forecast(loadsOf(hasher, limits, others), waitingOf(others))
    return endMs > (endsWithout.get(holder) ?? 0) + ROUNDING_MS
  }

  return (kept: SlotHolder[], ends: Map<SlotHolder, number>) =>
    new Set(kept.filter(holder => holder !== newcomer && isDelayed(holder, ends.get(holder) ?? 0)))
}

/** Those that run and can be stopped: the weakest and its neighbours in its thread, then the others. */
function stoppableOf(weaker: Set<SlotHolder>): SlotHolder[] {
  const running = [...weaker].filter(({ hashing }) => hashing?.cancel).toReversed()
  const isNeighbour = ({ hashing }: SlotHolder) => hashing?.thread === running[0]?.hashing?.thread
  return running.toSorted((a, b) => Number(isNeighbour(b)) - Number(isNeighbour(a)))
}

/**
 * How long the hash takes on a thread that is idle now, if the other lanes become busy. There it may begin
 * even if that is too long: waiting would not make it faster. Zero if no thread is idle.
 */
function onIdleThreadMs({ roundsLeft }: SlotHolder, threads: ThreadLoad<SlotHolder>[]): number {
  const idle = threads.filter(isIdle)
  return Math.max(0, ...idle.map(({ roundMs, lanes }) => roundsLeft * (roundMs[lanes - 1] ?? 0)))
}

export function waitingOf(holders: SlotHolder[]): SlotHolder[] {
  return holders.filter(({ isRunning }) => !isRunning)
}

/** True until the attempt has its reservation, and with it its job. */
export function isUnreserved({ queued }: SlotHolder): boolean {
  return queued === null
}
