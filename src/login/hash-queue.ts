// Admission to hashing. There are as many places as hashes can be computed in the time of a login, so that an
// attempt with a place is answered in time. When all places are taken, the attempt with the weakest claim
// gives way (fair-order.ts): it is shed, in most cases before it has cost anything.
import type { Hasher, Hashing, HashJob } from '../bcrypt/hasher.ts'
import {
  type Claim,
  canHavePriority,
  createShares,
  inFairOrder,
  type Ranked,
} from './fair-order.ts'

/** Reserved for what the measured times do not contain: other load, the database, the network. */
export const MARGIN_MS = 120
/** The same while attempts are refused: a shorter wait keeps the lanes as busy. */
const MARGIN_OVERLOADED_MS = 180
/** The part of it for the time after the hash. */
const MARGIN_AFTER_MS = 40
/** For this long after an attempt was refused, no lane is expected to stay free. */
const OVERLOADED_MS = 2_000
/** Hashes that began together end almost together. One with this share of its rounds left has as good as ended. */
const ALMOST = 0.05

export type HashQueue = {
  /** Null if the attempt is refused. */
  admit(claim: Claim): HashSlot | null
  /** How many attempts wait for their hash to begin. */
  depth(): number
}

/** The right to one hash. It must be used or released. */
export type HashSlot = {
  /**
   * The digest of the job; null, if the attempt had to give way, or if it cannot be answered by `finishByMs`. A
   * second job, after the first, has the same claim, and there may be no place for it.
   */
  run(finishByMs: number, job: HashJob): Promise<Buffer | null>
  release(): void
}

/** An attempt with a place: first it is reserved in the database, then it waits with its job, then it is hashed. */
type Entry = Ranked & { finishByMs: number; waiting: Waiting | null; hashing: Hashing | null }
type Waiting = {
  sinceMs: number
  job: HashJob
  end: (digest: Promise<Buffer | null> | null) => void
}
type Thread = {
  index: number
  /** How many hashes at a time it may compute, so that one ends in time. */
  lanes: number
  running: Entry[]
  /** How long a hash takes beside others, if there are so many in all. */
  hashMs: (hashes: number, rounds: number) => number
}

export function createHashQueue(
  hasher: Hasher,
  { cost, loginTimeMs }: { cost: number; loginTimeMs: number },
  nowMs = () => performance.now(),
  onStart: (waitedMs: number) => void = () => {},
): HashQueue {
  const rounds = 2 ** cost
  const shares = createShares(nowMs)
  let entries: Entry[] = []
  let refusedMs = Number.NEGATIVE_INFINITY
  /** The times that were measured before the service was idle say nothing of the load on the machine now. */
  let areTimesOld = true
  let mostByRate = 0
  countPlaces()

  function admit(claim: Claim): HashSlot | null {
    const entry: Entry = {
      ...{
        ...claim,
        pair: `${claim.client} ${claim.account}`,
        ownHashes: 0,
        turn: Number.POSITIVE_INFINITY,
      },
      ...{ finishByMs: 0, waiting: null, hashing: null },
      hasPriority: canHavePriority(claim, entries, shares),
      get isRunning() {
        return this.hashing !== null
      },
    }
    if (!takePlace(entry)) return null
    return {
      async run(finishByMs, job) {
        entry.finishByMs = finishByMs
        entry.waiting = entry.hashing = null
        try {
          // It has none after its first hash, or if it gave way while it was reserved.
          if (!entries.includes(entry) && !takePlace(entry)) return null
          const digest = await new Promise<Buffer | null>(end => {
            entry.waiting = { sinceMs: nowMs(), job, end }
            // Others give way only now: the attempt has its reservation and will be hashed.
            for (const other of inFairOrder(entries, shares).slice(countPlaces().byRate)) {
              if (!other.isRunning) evict(other)
            }
            startWaiting()
          })
          if (!digest) return null
          shares.add(entry)
          entry.ownHashes++
          areTimesOld = false
          return digest
        } finally {
          // Without a hash, nothing else has erased it.
          job.password.fill(0)
          leave(entry)
        }
      },
      release: () => leave(entry),
    }
  }

  function takePlace(entry: Entry): boolean {
    const { byRate, byLanes } = countPlaces()
    // No attempt gives way to the last one: it has to wait until the lanes are free.
    const places = (stronger: number) => (stronger === entries.length ? byLanes : byRate)
    const surely = countSurelyBefore(entry)
    if (surely < places(surely)) {
      const before = inFairOrder([...entries, entry], shares).indexOf(entry)
      if (before < places(before)) {
        entries.push(entry)
        return true
      }
    }
    refusedMs = nowMs()
    return false
  }

  /** How many attempts come before any new one of its network, without sorting them. */
  function countSurelyBefore({ network, hasPriority }: Entry): number {
    const turn = 1 + shares.countOf(network)
    const isBefore = (it: Entry) =>
      it.hasPriority === hasPriority ? it.turn <= turn : it.hasPriority
    return entries.filter(isBefore).length
  }

  /** How many hashes end within the time of a login. Each thread has a place even if its hash takes longer. */
  function countPlaces() {
    const timeMs = loginTimeMs - MARGIN_MS
    const busyMs = loginTimeMs - MARGIN_OVERLOADED_MS
    let [byRate, byLanes] = [0, 0]
    for (const { lanes, running, hashMs } of threads()) {
      const fullMs = hashMs(lanes, rounds)
      byRate += (lanes * timeMs) / fullMs
      for (let lane = 0; lane < Math.max(lanes, running.length); lane++) {
        const roundsLeft = running[lane]?.hashing?.roundsLeft()
        if (roundsLeft === undefined) byLanes += Math.max(1, Math.floor(busyMs / fullMs))
        else byLanes += 1 + Math.max(0, Math.floor((busyMs - hashMs(lanes, roundsLeft)) / fullMs))
      }
    }
    mostByRate = Math.max(mostByRate, byRate)
    byRate = Math.max(hasher.threads, Math.floor(areTimesOld ? mostByRate : byRate))
    return { byRate, byLanes: isOverloaded() ? Math.min(byLanes, byRate) : byRate }
  }

  /** Then no lane stays free, and hashes that began at the same moment end at the same moment. */
  function isOverloaded(): boolean {
    return nowMs() - refusedMs < OVERLOADED_MS
  }

  function threads(): Thread[] {
    return Array.from({ length: hasher.threads }, (_, index) => {
      const roundMs = hasher.roundMs(index)
      const inTime = roundMs.filter(ms => rounds * ms + MARGIN_MS <= loginTimeMs)
      return {
        index,
        lanes: Math.max(1, inTime.length),
        running: entries.filter(({ hashing }) => hashing?.thread === index),
        // A thread may have begun more hashes than it should compute at a time by now.
        hashMs: (hashes, rounds) => rounds * (roundMs[hashes - 1] ?? roundMs.at(-1) ?? 0),
      }
    })
  }

  /** Begins hashes in fair order, each on the thread with the fewest others. */
  function startWaiting(): void {
    if (depth() === 0) return
    const order = inFairOrder(entries, shares)
    for (const entry of order) {
      if (!entry.waiting || entry.isRunning || !entries.includes(entry)) continue
      const { totalRounds } = entry.waiting.job
      const stayingOn = ({ running }: Thread) =>
        running.filter(({ hashing }) => (hashing?.roundsLeft() ?? 0) > ALMOST * totalRounds).length
      const all = threads()
      const [thread] = all.toSorted(
        (a, b) => stayingOn(a) - stayingOn(b) || a.running.length - b.running.length,
      )
      if (!thread) return
      const { running, lanes, hashMs } = thread
      const neighbours = isOverloaded() ? lanes : Math.min(lanes, stayingOn(thread) + 1)
      const leftMs = entry.finishByMs - nowMs() - MARGIN_AFTER_MS
      const spareMs = leftMs - hashMs(neighbours, totalRounds)
      // It may end late where a single hash takes too long, and where other load, not more logins, is the reason.
      const isStrict = isOverloaded() && hashMs(1, rounds) + MARGIN_MS <= loginTimeMs
      const isLate = isStrict ? spareMs < 0 : leftMs < 0 && running.length > 0
      if (isLate) evict(entry)
      else if (running.length < lanes) start(entry, entry.waiting, thread.index)
      else {
        const stopped = findWeaker(entry, spareMs, order, all)
        if (!stopped?.hashing) continue
        const { thread } = stopped.hashing
        evict(stopped)
        start(entry, entry.waiting, thread)
      }
    }
  }

  /** The weakest hash that is weaker than the attempt, if this cannot wait for the next hash that ends. */
  function findWeaker(
    entry: Entry,
    spareMs: number,
    order: Entry[],
    all: Thread[],
  ): Entry | undefined {
    const endsMs = all.flatMap(({ running, hashMs }) =>
      running.map(({ hashing }) => hashMs(running.length, hashing?.roundsLeft() ?? 0)),
    )
    if (Math.min(...endsMs) <= spareMs) return undefined
    return order
      .slice(order.indexOf(entry))
      .findLast(it => it.hashing?.cancel && entries.includes(it))
  }

  function start(entry: Entry, { sinceMs, job, end }: Waiting, thread: number): void {
    try {
      entry.hashing = hasher.start(thread, job)
      onStart(nowMs() - sinceMs)
      end(entry.hashing.digest)
    } catch (error) {
      remove(entry)
      end(Promise.reject(error))
    }
  }

  function evict(entry: Entry): void {
    remove(entry)
    if (entry.hashing) entry.hashing.cancel?.()
    else entry.waiting?.end(null)
  }

  function leave(entry: Entry): void {
    remove(entry)
    startWaiting()
  }

  function remove(entry: Entry): void {
    entries = entries.filter(it => it !== entry)
    if (entries.length === 0) areTimesOld = true
  }

  function depth(): number {
    return entries.filter(it => it.waiting && !it.isRunning).length
  }

  return { admit, depth }
}
