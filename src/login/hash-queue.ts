// Admission to hashing: as many hashes run at a time as there are cores, and the queue holds only attempts
// that can be answered in time. An attempt that does not fit is shed before it costs anything.

/** Reserved for what the estimate cannot know: other load on the machine, the writes, the network. */
const MARGIN_MS = 250
// How much one measured hash changes the estimate: quickly down, slowly up. A long measurement may only
// mean that the event loop noticed the end of the hash late.
const SHARE_WHEN_FASTER = 0.5
const LARGEST_STEP_UP = 0.05

export type HashQueue = {
  /**
   * A slot for an attempt that must be answered by `finishByMs`; null if there is not enough time. An
   * account on a known device has priority, with one attempt at a time, so that it cannot displace the rest.
   */
  admit(finishByMs: number, knownAccount: string | null): Promise<HashSlot | null>
  /**
   * True if an attempt that waits for its scope can still be answered by `finishByMs`, with `ahead` attempts
   * of that scope before it, of which `capacity` may be hashed at a time.
   */
  hasTimeFor(finishByMs: number, ahead: number, capacity: number): boolean
  /** Runs a job that no caller waits for when a core is free; null, without running it, if too many wait. */
  runLast<T>(job: () => Promise<T>): Promise<T | null>
}

/** The right to one hash. It must be used or released. */
export type HashSlot = {
  /** Runs the job when its turn comes; null, without running it, if that would be too late. */
  run<T>(finishByMs: number, job: () => Promise<T>): Promise<T | null>
  release(): void
}

type Waiting = { finishByMs: number; answer: (isAdmitted: boolean) => void }
type Lane = {
  /** Attempts without a slot yet. */
  waiting: Waiting[]
  /** Slots that are neither used nor released: their attempts are being reserved in the database. */
  unused: number
  /** Attempts that wait for a core. */
  queued: Waiting[]
}

export function createHashQueue(
  workers: number,
  firstHashMs: number,
  nowMs = () => performance.now(),
): HashQueue {
  let hashMs = firstHashMs
  const running = new Set<{ beganMs: number }>()
  const priority: Lane = { waiting: [], unused: 0, queued: [] }
  const regular: Lane = { waiting: [], unused: 0, queued: [] }
  const last: Waiting[] = []
  const priorityAccounts = new Set<string>()

  /** True if an attempt with `ahead` others before it ends in time, should each hash take `hashMs`. */
  function fits(finishByMs: number, ahead: number): boolean {
    // A core is free: no other order would be faster, even if one hash alone takes too long.
    if (ahead < workers - running.size) return true
    const now = nowMs()
    const leftMs = Array.from(running, ({ beganMs }) => Math.max(0, beganMs + hashMs - now))
    while (leftMs.length < workers) leftMs.push(0)
    leftMs.sort((a, b) => a - b)
    const waitMs = (leftMs[ahead % workers] ?? 0) + Math.floor(ahead / workers) * hashMs
    return now + waitMs + hashMs + MARGIN_MS <= finishByMs
  }

  /**
   * Admits the attempts that fit and sheds those that cannot. The throttle may still block an attempt that
   * has an unused slot, and so free the slot. An attempt that would fit then waits until that is decided,
   * which takes a few milliseconds.
   */
  function admitWaiting(): void {
    let queued = 0
    let unused = 0
    for (const lane of [priority, regular]) {
      queued += lane.queued.length
      unused += lane.unused
      for (let first = lane.waiting[0]; first; first = lane.waiting[0]) {
        const isLate = nowMs() >= first.finishByMs
        const isAdmitted = !isLate && fits(first.finishByMs, queued + unused)
        if (!isAdmitted && !isLate && fits(first.finishByMs, queued)) break
        lane.waiting.shift()
        if (isAdmitted) unused++
        first.answer(isAdmitted)
      }
    }
  }

  function startNext(): void {
    for (const queue of [priority.queued, regular.queued, last]) {
      while (queue.length > 0 && running.size < workers) {
        const next = queue.shift()
        next?.answer(nowMs() + hashMs <= next.finishByMs)
      }
    }
    admitWaiting()
  }

  async function runInTurn<T>(queue: Waiting[], finishByMs: number, job: () => Promise<T>) {
    const hashing = { beganMs: 0 }
    const isInTime = await new Promise<boolean>(resolve => {
      const answer = (isInTime: boolean) => {
        hashing.beganMs = nowMs()
        if (isInTime) running.add(hashing)
        resolve(isInTime)
      }
      if (running.size < workers) answer(true)
      else queue.push({ finishByMs, answer })
    })
    if (!isInTime) return null
    try {
      const result = await job()
      const tookMs = nowMs() - hashing.beganMs
      if (tookMs < hashMs) hashMs += (tookMs - hashMs) * SHARE_WHEN_FASTER
      else hashMs = Math.min(tookMs, hashMs * (1 + LARGEST_STEP_UP))
      return result
    } finally {
      running.delete(hashing)
      startNext()
    }
  }

  return {
    async admit(finishByMs, knownAccount) {
      const isPriority = knownAccount !== null && !priorityAccounts.has(knownAccount)
      const account = isPriority ? knownAccount : ''
      const lane = isPriority ? priority : regular
      if (isPriority) priorityAccounts.add(account)
      const isAdmitted = await new Promise<boolean>(resolve => {
        const answer = (isAdmitted: boolean) => {
          if (isAdmitted) lane.unused++
          resolve(isAdmitted)
        }
        lane.waiting.push({ finishByMs, answer })
        admitWaiting()
      })
      if (!isAdmitted) {
        priorityAccounts.delete(account)
        return null
      }
      return {
        async run(finishByMs, job) {
          lane.unused--
          const hashed = runInTurn(lane.queued, finishByMs, job)
          admitWaiting()
          return hashed.finally(() => priorityAccounts.delete(account))
        },
        release() {
          lane.unused--
          priorityAccounts.delete(account)
          admitWaiting()
        },
      }
    },
    hasTimeFor(finishByMs, ahead, capacity) {
      const unused = priority.unused + regular.unused
      const queued = priority.queued.length + regular.queued.length
      // The hashes that run now, those of the attempts ahead, then this one.
      const rounds = Math.floor(ahead / capacity) + 2
      const isInTime = nowMs() + rounds * hashMs + MARGIN_MS <= finishByMs
      return isInTime && fits(finishByMs, ahead + unused + queued)
    },
    async runLast(job) {
      return last.length < workers ? runInTurn(last, Number.POSITIVE_INFINITY, job) : null
    },
  }
}
