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
 * its own time, so that it begins on the thread with the fewest others.
 */
const ALMOST = 0.02
/** What divisions may leave of the rounds of a hash that has ended. */
const ROUNDING = 0.01

/** When each hash ends, in milliseconds from now. Those that wait begin in their order, when a lane is free. */
export function forecast<W extends Work>(threads: ThreadLoad<W>[], waiting: W[]): Map<W, number> {
  const endsMs = new Map<W, number>()
  const lines = threads.map(load => ({
    ...load,
    running: load.running.map(work => ({ work, roundsLeft: work.roundsLeft })),
  }))
  let nowMs = 0

  /** Lets time pass until a hash ends. */
  function advance(): void {
    const stepMs = Math.min(...lines.map(line => fewestRounds(line) * roundMsOf(line)))
    nowMs += stepMs
    for (const line of lines) {
      const rounds = stepMs / roundMsOf(line)
      for (const hash of line.running) hash.roundsLeft -= rounds
      const isDone = ({ roundsLeft }: Work) => roundsLeft < ROUNDING
      if (!line.running.some(isDone)) continue
      for (const { work } of line.running.filter(isDone)) endsMs.set(work, nowMs)
      line.running = line.running.filter(hash => !isDone(hash))
    }
  }

  for (const work of waiting) {
    let line = threadFor(work, lines)
    while (!line) {
      advance()
      line = threadFor(work, lines)
    }
    line.running.push({ work, roundsLeft: work.roundsLeft })
  }
  while (lines.some(({ running }) => running.length > 0)) advance()
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
    const staying = thread.running.filter(other => other.roundsLeft > ALMOST * roundsLeft)
    const ms = thread.roundMs[staying.length] ?? Number.POSITIVE_INFINITY
    if (staying.length >= thread.lanes || ms >= bestMs) continue
    best = thread
    bestMs = ms
  }
  return best && best.running.length < best.lanes ? best : null
}

function fewestRounds({ running }: ThreadLoad<Work>): number {
  return Math.min(...running.map(({ roundsLeft }) => roundsLeft))
}

function roundMsOf({ running, roundMs }: ThreadLoad<Work>): number {
  return roundMs[running.length - 1] ?? Number.POSITIVE_INFINITY
}
