// A hasher without bcrypt, whose time the test controls. Like the real one it computes in chunks, and hashes
// join and leave between them.
import type { Hasher, HashJob } from '../../src/bcrypt/hasher.ts'

export const CHUNK_MS = 2
export const COST = 12
export const ROUNDS = 2 ** COST
/** How long a hash takes alone, beside another, and beside two. */
export const HASH_MS = [305, 370, 472]

type Lane = {
  job: HashJob
  left: number
  settle: (digest: Buffer | null) => void
  fail: (error: Error) => void
}
type Options = { threads: number; roundMs: number[]; canCancel?: boolean }

export function simulateHasher({ threads: count, roundMs, canCancel = true }: Options) {
  let now = 0
  const speed = { roundMs }
  const threads = Array.from({ length: count }, () => ({ lanes: [] as Lane[], chunkEndsMs: 0 }))
  type Thread = (typeof threads)[number]

  /** Runs the chunk that begins now: to the end of the first hash, and not longer than CHUNK_MS. */
  function beginChunk(thread: Thread): void {
    const msEach = speed.roundMs[thread.lanes.length - 1] ?? 0
    const rounds = Math.min(CHUNK_MS / msEach, ...thread.lanes.map(({ left }) => left))
    for (const lane of thread.lanes) lane.left -= rounds
    thread.chunkEndsMs += rounds * msEach
  }

  function endChunk(thread: Thread): Lane[] {
    const done = thread.lanes.filter(({ left }) => left < 1e-6)
    thread.lanes = thread.lanes.filter(lane => !done.includes(lane))
    for (const { settle, job } of done) settle(job.salt)
    return done
  }

  /** Lets time pass. What is to happen after the end of a hash happens before the next one ends. */
  async function advance(ms: number): Promise<void> {
    const untilMs = now + ms
    for (;;) {
      const busy = threads.filter(({ lanes }) => lanes.length > 0)
      const first = busy.toSorted((a, b) => a.chunkEndsMs - b.chunkEndsMs)[0]
      if (!first || first.chunkEndsMs > untilMs) break
      now = Math.max(now, first.chunkEndsMs)
      if (endChunk(first).length > 0) await settled()
      if (first.lanes.length > 0) beginChunk(first)
    }
    now = untilMs
  }

  const hasher: Hasher = {
    name: canCancel ? 'lanes' : 'native',
    threads: count,
    roundMs: index => (index < count ? speed.roundMs : []),
    start(index, job) {
      const thread = threads[index]
      if (!thread || thread.lanes.length >= speed.roundMs.length) throw new Error('no free lane')
      const { promise, resolve, reject } = Promise.withResolvers<Buffer | null>()
      const lane: Lane = { job, left: job.totalRounds, settle: resolve, fail: reject }
      thread.lanes.push(lane)
      if (thread.lanes.length === 1) {
        thread.chunkEndsMs = now
        beginChunk(thread)
      }
      return {
        thread: index,
        roundsLeft: () => Math.max(0, lane.left),
        digest: promise,
        cancel: canCancel
          ? () => {
              thread.lanes = thread.lanes.filter(it => it !== lane)
              resolve(null)
            }
          : null,
      }
    },
    close: async () => {},
  }
  return {
    hasher,
    advance,
    nowMs: () => now,
    /** The jobs that are being computed. */
    running: () => threads.flatMap(({ lanes }) => lanes.map(({ job }) => job)),
    /** The threads as they are now. */
    lanes: () => threads.map(({ lanes }) => lanes.map(({ job, left }) => ({ job, left }))),
    setRoundMs(changed: number[]) {
      speed.roundMs = changed
    },
    failAll(error: Error) {
      for (const thread of threads) for (const lane of thread.lanes.splice(0)) lane.fail(error)
    },
  }
}

/** Lets all pending callbacks of promises run. */
export async function settled(): Promise<void> {
  for (let i = 0; i < 8; i++) await null
}
