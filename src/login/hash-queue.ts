// Admission to hashing. An attempt is admitted only if the forecast shows that it, and every attempt admitted
// before it, will be answered in time; else it is shed before it costs anything. When there is no room, a
// client with few attempts evicts one of a client with many: see fair-order.ts.
import type { Hasher, Hashing, HashJob } from '../bcrypt/hasher.ts'
import { asIfBusy, isIdle, type Limits, loadsOf, MARGIN_MS } from './capacity.ts'
import { type Claim, inFairOrder } from './fair-order.ts'
import { forecast, type ThreadLoad, threadFor, type Work } from './forecast.ts'

/** The part of MARGIN_MS for the time after the hash. */
export const MARGIN_AFTER_MS = 40
/** For this long after an attempt was shed, no lane is expected to stay free. */
export const SHEDDING_MS = 2_000
/** In a burst, many attempts come within this time; the forecast for one is good for all. */
const VERDICT_MS = 5
/** Forecasts that differ by less are the same. */
const ROUNDING_MS = 0.01

export type HashQueue = {
  /**
   * A slot for an attempt that must be answered by `finishByMs`; null if it is shed. 'undecided' if there is
   * room only without the attempts that are being reserved: the throttle may block them.
   */
  admit(claim: HashClaim, finishByMs: number): HashSlot | 'undecided' | null
  /** When an attempt that was being reserved has been queued or has released its slot. */
  nextDecision(): Promise<void>
  /**
   * True if an attempt that waits for its scope can still be answered by `finishByMs`, with `ahead` attempts
   * of that scope before it, of which `capacity` may be hashed at a time.
   */
  hasTimeFor(finishByMs: number, ahead: number, capacity: number): boolean
  /** Runs a job that no caller waits for when a core is idle; null, without running it, if too many wait. */
  runLast<T>(job: () => Promise<T>): Promise<T | null>
  /** How many attempts wait for their hash to begin. */
  depth(): number
}

export type HashClaim = { client: string; account: string; isKnownDevice: boolean }

/** The right to one hash. It must be used or released. */
export type HashSlot = {
  /** The digest of the job; null, if the attempt was evicted or its turn came too late. */
  run(finishByMs: number, job: HashJob): Promise<Buffer | null>
  release(): void
}

/** An attempt with a slot: first it is reserved in the database, then it is queued, then hashed. */
type Entry = Claim &
  Work & {
    finishByMs: number
    queued: {
      sinceMs: number
      job: HashJob
      answer: (digest: Promise<Buffer | null> | null) => void
    } | null
    hashing: Hashing | null
  }

export function createHashQueue(
  hasher: Hasher,
  limits: Limits,
  nowMs = () => performance.now(),
  onStart: (waitedMs: number) => void = () => {},
): HashQueue {
  const rounds = 2 ** limits.cost
  /** In the order in which they are hashed. It stays as it is, because the forecasts rely on it. */
  const entries: Entry[] = []
  const last: (() => void)[] = []
  let isRunningLast = false
  let lastShedMs = Number.NEGATIVE_INFINITY
  const undecided: (() => void)[] = []
  /** What the weakest attempt was told last, for those that come at the same moment; changes end it. */
  let verdict: { answer: 'undecided' | null; untilMs: number } | null = null

  function admit(
    { client, account, isKnownDevice }: HashClaim,
    finishByMs: number,
  ): HashSlot | 'undecided' | null {
    // One attempt at a time has priority: the owner of a known device must not evict the rest.
    const hasPriority =
      isKnownDevice && !entries.some(it => it.hasPriority && it.account === account)
    const entry: Entry = {
      ...{ client, account, hasPriority, finishByMs },
      ...{ roundsLeft: rounds, queued: null, hashing: null },
      get isRunning() {
        return this.hashing !== null
      },
    }
    const weaker = weakerThan(entry)
    if (weaker.size === 0 && verdict && nowMs() < verdict.untilMs) return verdict.answer
    const firstWeaker = entries.findIndex(it => !it.isRunning && weaker.has(it))
    entries.splice(firstWeaker === -1 ? entries.length : firstWeaker, 0, entry)
    if (!makeRoom(entry, weaker, MARGIN_MS)) {
      const unreserved = entries.filter(other => other !== entry && isUnreserved(other))
      const isUndecided =
        unreserved.length > 0 && makeRoom(entry, weaker, MARGIN_MS, new Set(unreserved)) !== null
      remove(entry)
      const answer = isUndecided ? ('undecided' as const) : null
      if (weaker.size === 0) verdict = { answer, untilMs: nowMs() + VERDICT_MS }
      if (!isUndecided) lastShedMs = nowMs()
      return answer
    }
    verdict = null
    return {
      async run(finishByMs: number, job: HashJob) {
        entry.finishByMs = finishByMs
        entry.roundsLeft = job.totalRounds
        // An attempt evicts others only now: it has its reservation and will be hashed.
        const evicted = makeRoom(entry, weakerThan(entry), MARGIN_AFTER_MS)
        if (!evicted) {
          job.password.fill(0)
          leave(entry)
          decide()
          return null
        }
        for (const other of evicted) evict(other)
        try {
          return await new Promise<Buffer | null>(resolve => {
            entry.queued = { sinceMs: nowMs(), job, answer: resolve }
            startQueued()
            decide()
          })
        } finally {
          leave(entry)
        }
      },
      release() {
        leave(entry)
        decide()
      },
    }
  }

  /** Wakes one attempt that is undecided; all of them, if no attempt is being reserved any more. */
  function decide(): void {
    verdict = null
    const count = entries.some(isUnreserved) ? 1 : undecided.length
    for (const wake of undecided.splice(0, count)) wake()
  }

  /**
   * The attempts to evict, so that this one is answered in time and delays no attempt with a better claim
   * beyond its time; null if it must be shed. `without` are left out of the forecast.
   */
  function makeRoom(
    entry: Entry,
    weaker: Set<Entry>,
    marginMs: number,
    without = new Set<Entry>(),
  ): Entry[] | null {
    const now = nowMs()
    const isLate = (other: Entry, endMs = 0) =>
      endMs > other.finishByMs - now - MARGIN_AFTER_MS + ROUNDING_MS
    const isShedding = now - lastShedMs < SHEDDING_MS
    const others = entries.filter(other => other !== entry && !without.has(other))
    let endsWithout: Map<Entry, number> | null = null
    /** True if the entry makes the other one late, or later. */
    const isDelayed = (other: Entry, endMs = 0) => {
      // A weaker attempt that is being reserved is checked again in its own `run`.
      if (!isLate(other, endMs) || (isUnreserved(other) && weaker.has(other))) return false
      endsWithout ??= forecast(loadsOf(hasher, limits, others), waitingOf(others))
      return endMs > (endsWithout.get(other) ?? 0) + ROUNDING_MS
    }
    const stoppable = stoppableOf(weaker)
    // At most one per attempt that is being reserved, and the neighbours in one thread.
    const unreserved = entries.filter(isUnreserved).length
    const most = Math.min(stoppable.length, unreserved + hasher.roundMs(0).length - 1)
    for (let stopped = 0; stopped <= most; stopped++) {
      const evicted = new Set(stoppable.slice(0, stopped))
      for (;;) {
        const kept = entries.filter(other => !evicted.has(other) && !without.has(other))
        const threads = loadsOf(hasher, limits, kept)
        const waiting = waitingOf(kept)
        const ownEnds = forecast(isShedding ? threads.map(asIfBusy) : threads, waiting)
        const inTimeMs = Math.max(entry.finishByMs - now - marginMs, onIdleThreadMs(entry, threads))
        if ((ownEnds.get(entry) ?? 0) > inTimeMs + ROUNDING_MS) break
        const ends = isShedding ? forecast(threads, waiting) : ownEnds
        const delayed = new Set(kept.filter(other => isDelayed(other, ends.get(other))))
        delayed.delete(entry)
        if (delayed.size === 0) {
          entry.finishByMs = Math.max(entry.finishByMs, now + inTimeMs + marginMs)
          return [...evicted]
        }
        const weakest = [...weaker].findLast(other => delayed.has(other))
        if (!weakest || [...delayed].some(other => !weaker.has(other))) break
        evicted.add(weakest)
      }
    }
    return null
  }

  /** Those that run and can be stopped: the weakest and its neighbours in its thread, then the others. */
  function stoppableOf(weaker: Set<Entry>): Entry[] {
    const running = [...weaker].filter(({ hashing }) => hashing?.cancel).toReversed()
    const isNeighbour = ({ hashing }: Entry) => hashing?.thread === running[0]?.hashing?.thread
    return running.toSorted((a, b) => Number(isNeighbour(b)) - Number(isNeighbour(a)))
  }

  /** The attempts that give way to this one, the weakest last. */
  function weakerThan(entry: Entry): Set<Entry> {
    const order = inFairOrder(entries.includes(entry) ? entries : [...entries, entry])
    return new Set(order.slice(order.indexOf(entry) + 1))
  }

  /**
   * How long the hash takes on a thread that is idle now, if the other lanes become busy. There it may begin
   * even if that is too long: waiting would not make it faster. Zero if no thread is idle.
   */
  function onIdleThreadMs({ roundsLeft }: Entry, threads: ThreadLoad<Entry>[]): number {
    const idle = threads.filter(isIdle)
    return Math.max(0, ...idle.map(({ roundMs, lanes }) => roundsLeft * (roundMs[lanes - 1] ?? 0)))
  }

  function startQueued(): void {
    for (const entry of [...entries]) {
      if (!entry.queued || entry.isRunning) continue
      const threads = loadsOf(hasher, limits, entries)
      const thread = threadFor(entry, threads)
      if (!thread) return
      const { sinceMs, job, answer } = entry.queued
      const endsMs = nowMs() + job.totalRounds * (thread.roundMs[thread.running.length] ?? 0)
      if (endsMs > entry.finishByMs + ROUNDING_MS) {
        evict(entry)
        continue
      }
      try {
        entry.hashing = hasher.start(threads.indexOf(thread), job)
        onStart(nowMs() - sinceMs)
        answer(entry.hashing.digest)
      } catch (error) {
        remove(entry)
        answer(Promise.reject(error))
      }
    }
    startLast()
  }

  function startLast(): void {
    const isFree = !isRunningLast && loadsOf(hasher, limits, entries).some(isIdle)
    const begin = isFree ? last.shift() : undefined
    if (!begin) return
    isRunningLast = true
    begin()
  }

  function evict(entry: Entry): void {
    remove(entry)
    if (entry.hashing) entry.hashing.cancel?.()
    else entry.queued?.answer(null)
  }

  function leave(entry: Entry): void {
    if (remove(entry)) startQueued()
  }

  function remove(entry: Entry): boolean {
    verdict = null
    const index = entries.indexOf(entry)
    if (index !== -1) entries.splice(index, 1)
    return index !== -1
  }

  return {
    admit,
    depth: () => waitingOf(entries).filter(({ queued }) => queued !== null).length,
    nextDecision: () => new Promise(resolve => undecided.push(resolve)),
    hasTimeFor(finishByMs, ahead, capacity) {
      const hashMs = rounds * (hasher.roundMs(0)[0] ?? 0)
      // The hashes that run now, those of the attempts ahead, then this one.
      const hashes = Math.floor(ahead / capacity) + 2
      return nowMs() + hashes * hashMs + MARGIN_MS <= finishByMs
    },
    async runLast(job) {
      if (last.length >= hasher.threads) return null
      await new Promise<void>(resolve => {
        last.push(resolve)
        startLast()
      })
      try {
        return await job()
      } finally {
        isRunningLast = false
        startLast()
      }
    },
  }
}

function waitingOf(entries: Entry[]): Entry[] {
  return entries.filter(({ isRunning }) => !isRunning)
}

/** True until the attempt has its reservation, and with it its job. */
function isUnreserved({ queued }: Entry): boolean {
  return queued === null
}
