// Admission to hashing. An attempt is admitted only if the forecast shows that it, and every attempt admitted
// before it, will be answered in time; else it is shed before it costs anything. When there is no room, an
// attempt of a client with few hashes evicts one of a client with many: see fair-order.ts.
import type { Hasher, HashJob } from '../bcrypt/hasher.ts'
import { isIdle, loadsOf, MARGIN_MS, type QueueLimits } from './capacity.ts'
import {
  findEvictions,
  isUnreserved,
  MARGIN_AFTER_MS,
  ROUNDING_MS,
  type SlotHolder,
  waitingOf,
} from './evictions.ts'
import { inFairOrder, turnNamesOf } from './fair-order.ts'
import { threadFor } from './forecast.ts'
import { createIdleJobs, type IdleJobs } from './idle-jobs.ts'
import { createRecentHashes } from './recent-hashes.ts'

/** For this long after an attempt was shed, no lane is expected to stay free. */
export const SHEDDING_MS = 2_000
/** In a burst, many attempts come within this time; the forecast for one is good for all. */
const VERDICT_MS = 5

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
  /** Runs a job when no attempt needs the core. */
  runLast: IdleJobs['run']
  /** How many attempts wait for their hash to begin. */
  depth(): number
}

export type HashClaim = {
  /** Many addresses that may belong to one owner. */
  network: string
  client: string
  account: string
  isKnownDevice: boolean
}

/** The right to one hash. It must be used or released. */
export type HashSlot = {
  /**
   * The digest of the job; null, if the attempt was evicted or its turn came too late. A second job, after the
   * first, has the same claim, and there may be no room for it.
   */
  run(finishByMs: number, job: HashJob): Promise<Buffer | null>
  release(): void
}

export function createHashQueue(
  hasher: Hasher,
  limits: QueueLimits,
  nowMs = () => performance.now(),
  onStart: (waitedMs: number) => void = () => {},
): HashQueue {
  const rounds = 2 ** limits.cost
  /** In the order in which they are hashed. It stays as it is, because the forecasts rely on it. */
  const entries: SlotHolder[] = []
  const recent = createRecentHashes(nowMs)
  const idleJobs = createIdleJobs(hasher.threads, () =>
    loadsOf(hasher, limits, entries).some(isIdle),
  )
  let lastShedMs = Number.NEGATIVE_INFINITY
  const undecided: (() => void)[] = []
  /** What the weakest attempt was told last, for those that come at the same moment; room that becomes free ends it. */
  let verdict: { answer: 'undecided' | null; finishByMs: number; untilMs: number } | null = null

  function admit(
    { network, client, account, isKnownDevice }: HashClaim,
    finishByMs: number,
  ): HashSlot | 'undecided' | null {
    const hasPriority = isKnownDevice && canHavePriority(network, account)
    const entry: SlotHolder = {
      ...{ network, client, account, hasPriority, finishByMs },
      ...{ roundsLeft: rounds, queued: null, hashing: null, ownHashes: 0 },
      get isRunning() {
        return this.hashing !== null
      },
    }
    const weaker = weakerThan(entry)
    const isAnswered =
      verdict && nowMs() < verdict.untilMs && finishByMs <= verdict.finishByMs + VERDICT_MS
    if (weaker.size === 0 && verdict && isAnswered) return verdict.answer
    insert(entry, weaker)
    const room = findRoom(entry, entries, weaker, MARGIN_MS)
    if (!room) {
      const reserved = entries.filter(other => other === entry || !isUnreserved(other))
      const isUndecided =
        reserved.length < entries.length && findRoom(entry, reserved, weaker, MARGIN_MS) !== null
      remove(entry)
      const answer = isUndecided ? ('undecided' as const) : null
      if (weaker.size === 0) verdict = { answer, finishByMs, untilMs: nowMs() + VERDICT_MS }
      if (!isUndecided) lastShedMs = nowMs()
      return answer
    }
    entry.finishByMs = room.finishByMs
    return {
      async run(finishByMs: number, job: HashJob) {
        entry.finishByMs = finishByMs
        entry.roundsLeft = job.totalRounds
        const isSecond = entry.hashing !== null
        entry.hashing = entry.queued = null
        const weaker = weakerThan(entry)
        if (isSecond) insert(entry, weaker)
        // An attempt evicts others only now: it has its reservation and will be hashed. It stops a hash rather
        // than wait so long that it is late if hashing becomes a little slower.
        const room =
          findRoom(entry, entries, weaker, MARGIN_MS) ??
          findRoom(entry, entries, weaker, MARGIN_AFTER_MS)
        if (!room) {
          job.password.fill(0)
          leave(entry)
          decide()
          return null
        }
        entry.finishByMs = room.finishByMs
        for (const other of room.evicted) evict(other)
        try {
          const digest = await new Promise<Buffer | null>(resolve => {
            entry.queued = { sinceMs: nowMs(), job, answer: resolve }
            startQueued()
            decide()
          })
          if (digest) {
            recent.add(namesOfHash(entry))
            entry.ownHashes++
          }
          return digest
        } finally {
          // Without a hash, nothing else has erased it.
          job.password.fill(0)
          leave(entry)
        }
      },
      release() {
        leave(entry)
        decide()
      },
    }
  }

  /**
   * An attacker may have accounts with known devices too. So only one attempt per network and per account has
   * priority at a time, and an account does not have it again soon.
   */
  function canHavePriority(network: string, account: string): boolean {
    const isTaken = entries.some(
      it => it.hasPriority && (it.network === network || it.account === account),
    )
    return !isTaken && recent.countOf(priorityName(account)) === 0
  }

  /** Wakes one attempt that is undecided; all of them, if no attempt is being reserved any more. */
  function decide(): void {
    verdict = null
    const count = entries.some(isUnreserved) ? 1 : undecided.length
    for (const wake of undecided.splice(0, count)) wake()
  }

  function findRoom(
    newcomer: SlotHolder,
    holders: SlotHolder[],
    weaker: Set<SlotHolder>,
    marginMs: number,
  ) {
    const isShedding = nowMs() - lastShedMs < SHEDDING_MS
    const prospects = { hasher, limits, nowMs: nowMs(), marginMs, isShedding }
    return findEvictions(newcomer, holders, weaker, prospects)
  }

  /** It is hashed before those that give way to it. */
  function insert(entry: SlotHolder, weaker: Set<SlotHolder>): void {
    const firstWeaker = entries.findIndex(it => !it.isRunning && weaker.has(it))
    entries.splice(firstWeaker === -1 ? entries.length : firstWeaker, 0, entry)
  }

  /** The attempts that give way to this one, the weakest last. */
  function weakerThan(entry: SlotHolder): Set<SlotHolder> {
    const order = inFairOrder(entries.includes(entry) ? entries : [...entries, entry], recent)
    return new Set(order.slice(order.indexOf(entry) + 1))
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
    idleJobs.startNext()
  }

  function evict(entry: SlotHolder): void {
    remove(entry)
    if (entry.hashing) entry.hashing.cancel?.()
    else entry.queued?.answer(null)
  }

  function leave(entry: SlotHolder): void {
    remove(entry)
    startQueued()
  }

  function remove(entry: SlotHolder): void {
    verdict = null
    const index = entries.indexOf(entry)
    if (index !== -1) entries.splice(index, 1)
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
    runLast: idleJobs.run,
  }
}

/** The names under which a hash is remembered. */
function namesOfHash(entry: SlotHolder): string[] {
  const names = turnNamesOf(entry)
  return entry.hasPriority ? [...names, priorityName(entry.account)] : names
}

/** No client has such a name. */
function priorityName(account: string): string {
  return `priority ${account}`
}
