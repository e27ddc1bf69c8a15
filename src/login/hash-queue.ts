// Who is hashed, and when: as many at a time as there are cores, the others in a queue that holds no
// more than can be answered in time. What does not fit is turned away before it costs anything.

/** Left for what an estimate cannot know: other work of the machine, the writes, the network. */
const MARGIN_MS = 250
// How far the newest hash moves the measure of what a hash takes: down fast, up in small steps, because
// one that took long may only have waited for the event loop to notice its end.
const SHARE_WHEN_FASTER = 0.5
const LARGEST_STEP_UP = 0.05

export type HashQueue = {
  /**
   * A place for an attempt that is to be answered by then; null if it could not be. An account on a
   * device that it knows goes first, one attempt at a time: nobody is to push all others aside.
   */
  enter(finishByMs: number, knownAccount: string | null): Promise<Place | null>
  /** Whether it could be answered by then if so many of its kind are hashed before, some at a time. */
  hasTimeFor(finishByMs: number, before: number, atATime: number): boolean
  /** For work that nobody waits for; null, without running it, if enough of it waits already. */
  runLast<T>(job: () => Promise<T>): Promise<T | null>
}

export type Place = {
  /** Runs the job when its turn comes; null, without running it, if that is too late. */
  run<T>(finishByMs: number, job: () => Promise<T>): Promise<T | null>
  /** Gives the place back instead. */
  leave(): void
  /** The same for an error, which is thrown on. */
  abandon(error: unknown): never
}

type Waiting = { finishByMs: number; answer: (isIn: boolean) => void }
/** `undecided` have a place, but may yet be refused before their hash. */
type Line = { atTheDoor: Waiting[]; undecided: number; queued: Waiting[] }

export function createHashQueue(
  workers: number,
  firstHashMs: number,
  nowMs = () => performance.now(),
): HashQueue {
  let hashMs = firstHashMs
  const running = new Set<{ beganMs: number }>()
  const ahead: Line = { atTheDoor: [], undecided: 0, queued: [] }
  const others: Line = { atTheDoor: [], undecided: 0, queued: [] }
  const last: Waiting[] = []
  const accountsAhead = new Set<string>()

  /** Exact as long as every hash takes what the measure says. */
  function fits(finishByMs: number, before: number): boolean {
    // Nothing could be faster, even if one hash alone takes longer than a login should.
    if (before < workers - running.size) return true
    const now = nowMs()
    const leftMs = Array.from(running, ({ beganMs }) => Math.max(0, beganMs + hashMs - now))
    while (leftMs.length < workers) leftMs.push(0)
    leftMs.sort((a, b) => a - b)
    const waitMs = (leftMs[before % workers] ?? 0) + Math.floor(before / workers) * hashMs
    return now + waitMs + hashMs + MARGIN_MS <= finishByMs
  }

  /**
   * Lets in whom there is room for and turns away the others. Who would fit only if some with a place
   * are refused before their hash stays at the door until that is known, a few milliseconds.
   */
  function openDoor(): void {
    let hashed = 0
    let undecided = 0
    for (const line of [ahead, others]) {
      hashed += line.queued.length
      undecided += line.undecided
      for (let first = line.atTheDoor[0]; first; first = line.atTheDoor[0]) {
        const isLate = nowMs() >= first.finishByMs
        const isIn = !isLate && fits(first.finishByMs, hashed + undecided)
        if (!isIn && !isLate && fits(first.finishByMs, hashed)) break
        line.atTheDoor.shift()
        if (isIn) undecided++
        first.answer(isIn)
      }
    }
  }

  function startNext(): void {
    for (const queue of [ahead.queued, others.queued, last]) {
      while (queue.length > 0 && running.size < workers) {
        const next = queue.shift()
        next?.answer(nowMs() + hashMs <= next.finishByMs)
      }
    }
    openDoor()
  }

  async function runInTurn<T>(queue: Waiting[], finishByMs: number, job: () => Promise<T>) {
    const hashing = { beganMs: 0 }
    const isIn = await new Promise<boolean>(resolve => {
      const answer = (isIn: boolean) => {
        hashing.beganMs = nowMs()
        if (isIn) running.add(hashing)
        resolve(isIn)
      }
      if (running.size < workers) answer(true)
      else queue.push({ finishByMs, answer })
    })
    if (!isIn) return null
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
    async enter(finishByMs, knownAccount) {
      const account = knownAccount !== null && !accountsAhead.has(knownAccount) ? knownAccount : ''
      const line = account ? ahead : others
      if (account) accountsAhead.add(account)
      const isIn = await new Promise<boolean>(resolve => {
        const answer = (isIn: boolean) => {
          if (isIn) line.undecided++
          resolve(isIn)
        }
        line.atTheDoor.push({ finishByMs, answer })
        openDoor()
      })
      if (!isIn) {
        accountsAhead.delete(account)
        return null
      }
      const leave = () => {
        line.undecided--
        accountsAhead.delete(account)
        openDoor()
      }
      return {
        async run(finishByMs, job) {
          line.undecided--
          const hashed = runInTurn(line.queued, finishByMs, job)
          openDoor()
          return hashed.finally(() => accountsAhead.delete(account))
        },
        leave,
        abandon(error) {
          leave()
          throw error
        },
      }
    },
    hasTimeFor(finishByMs, before, atATime) {
      const undecided = ahead.undecided + others.undecided
      const queued = ahead.queued.length + others.queued.length
      // Those who are at it now, those before, then the one who asks.
      const rounds = Math.floor(before / atATime) + 2
      const isInTime = nowMs() + rounds * hashMs + MARGIN_MS <= finishByMs
      return isInTime && fits(finishByMs, before + undecided + queued)
    },
    async runLast(job) {
      return last.length < workers ? runInTurn(last, Number.POSITIVE_INFINITY, job) : null
    },
  }
}
