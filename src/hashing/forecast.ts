// Predicts when hashes end. A thread computes several at a time, each of them slower the more there are, so
// that the end of a hash depends on its neighbours and on all hashes that wait.

/** A hash that is being computed or waits: how many rounds it still needs. */
export type Work = { roundsLeft: number }

export type ThreadLoad<W extends Work> = {
  running: W[]
  /** How long one round of all running hashes takes: the first value with one of them, the second with two. */
  roundMs: readonly number[]
  /** How many hashes the thread may compute at a time. */
  lanes: number
}

/**
 * Hashes that began together end almost together. The next one waits for all of them, up to this share of
 * its own rounds, so that it begins on the thread with the fewest others.
 */
const ALMOST = 0.05
/** It waits only if its rounds are then faster by this factor than on a thread with a free lane. */
const WORTH_WAITING = 1.05
/** What divisions may leave of the rounds of a hash that has ended. */
const ROUNDING = 0.01

/** When each hash ends, in milliseconds from now. Those that wait begin in their order, when a lane is free. */
export function forecast<W extends Work>(threads: ThreadLoad<W>[], waiting: W[]): Map<W, number> {
  const endsMs = new Map<W, number>()
  const futures = threads.map(load => new FutureThread(load, endsMs))
  for (const work of waiting) {
    let thread = threadFor(work, futures)
    while (!thread) {
      const nowMs = futures.reduce(
        (ms, { nextEndMs }) => Math.min(ms, nextEndMs),
        Number.POSITIVE_INFINITY,
      )
      for (const each of futures) each.advanceTo(nowMs)
      thread = threadFor(work, futures)
    }
    thread.add(work)
  }
  for (const thread of futures) while (thread.running.length > 0) thread.advanceTo(thread.nextEndMs)
  return endsMs
}

/** The thread on which the next hash is to begin now; null if it must wait. */
export function threadFor<T extends ThreadLoad<Work>>(
  { roundsLeft }: Work,
  threads: T[],
): T | null {
  let best: T | null = null
  let bestMs = Number.POSITIVE_INFINITY
  for (const thread of threads) {
    let staying = 0
    for (const other of thread.running) if (other.roundsLeft > ALMOST * roundsLeft) staying++
    const isFree = thread.running.length < thread.lanes
    const ms = (thread.roundMs[staying] ?? 0) * (isFree ? 1 : WORTH_WAITING)
    if (staying >= thread.lanes || ms >= bestMs) continue
    best = thread
    bestMs = ms
  }
  return best && best.running.length < best.lanes ? best : null
}

/** A thread and its hashes at a moment in the future. */
class FutureThread<W extends Work> implements ThreadLoad<Work> {
  running: { work: W; roundsLeft: number }[]
  readonly roundMs: readonly number[]
  readonly lanes: number
  nextEndMs = Number.POSITIVE_INFINITY
  /** The moment at which its hashes have `roundsLeft`. */
  #atMs = 0
  readonly #endsMs: Map<W, number>

  constructor({ running, roundMs, lanes }: ThreadLoad<W>, endsMs: Map<W, number>) {
    this.running = running.map(work => ({ work, roundsLeft: work.roundsLeft }))
    this.roundMs = roundMs
    this.lanes = lanes
    this.#endsMs = endsMs
    this.#findNextEnd()
  }

  add(work: W): void {
    this.running.push({ work, roundsLeft: work.roundsLeft })
    this.#findNextEnd()
  }

  /** Lets time pass, not beyond the next end. */
  advanceTo(ms: number): void {
    const rounds = (ms - this.#atMs) / this.#msPerRound()
    this.#atMs = ms
    for (const hash of this.running) hash.roundsLeft -= rounds
    if (this.nextEndMs > ms) return
    this.running = this.running.filter(({ work, roundsLeft }) => {
      if (roundsLeft < ROUNDING) this.#endsMs.set(work, ms)
      return roundsLeft >= ROUNDING
    })
    this.#findNextEnd()
  }

  #findNextEnd(): void {
    let fewest = Number.POSITIVE_INFINITY
    for (const { roundsLeft } of this.running) fewest = Math.min(fewest, roundsLeft)
    this.nextEndMs = this.#atMs + fewest * this.#msPerRound()
  }

  #msPerRound(): number {
    const { length } = this.running
    // A thread may have begun more hashes than it should compute at a time by now: the throughput stays the same.
    const mostMs = this.roundMs.at(-1) ?? Number.POSITIVE_INFINITY
    return this.roundMs[length - 1] ?? (mostMs * length) / this.roundMs.length
  }
}
