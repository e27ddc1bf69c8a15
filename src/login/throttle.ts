// Guessing protection in front of the store: remembers blocks for a moment, and lets attempts wait while
// their scope is busy. An attempt is reserved in the store before its password is verified and settled
// afterwards, so that parallel guessing gains nothing.
import type { AttemptStore, Reservation, ThrottleScope } from '../domain/attempt.ts'

export type Block = Extract<Reservation, { kind: 'blocked' }>

/** A cached block is checked again by one attempt after this time … */
const REVALIDATE_MS = 100
/** … and dropped after this one, so an administrator's unlock takes effect by then. */
export const BLOCK_CACHED_MS = 2 * REVALIDATE_MS
/** How often the first waiting attempt asks the store, since another instance may have settled an attempt. */
const POLL_EVERY_MS = 100
/** This many attempts may wait, as many as one client may have connections. Further ones are shed at once. */
const MAX_WAITING = 256

export type Throttle = {
  /** A cached block of one of these scopes. All attempts with this name have these scopes. */
  recallBlock(scopes: ThrottleScope[], name: string | null): Block | null
  /** The same for a name whose block has been recalled before. It needs no scopes, whose digests take time. */
  recallByName(name: string | null, now: Date): Block | null
  reserve(scopes: ThrottleScope[], email: string): Promise<Reservation>
  countWaiting(key: string): number
  /**
   * Waits, as the first or the last, until the scope may have room; false at the deadline, or if too many
   * wait. An attempt that was woken and does not reserve wakes the next one.
   */
  waitForScope(key: string, deadlineMs: number, isFirst: boolean): Promise<boolean>
  wakeNext(key: string): void
  /** Wakes the first attempt that waits for each of these scopes: a pending attempt in them has ended. */
  wake(scopes: ThrottleScope[]): void
}

export function createThrottle(
  attempts: Pick<AttemptStore, 'reserve'>,
  clock: () => Date,
  nowMs = () => performance.now(),
): Throttle {
  const queues = createQueues()
  const blocks = createBlockCache(clock, nowMs)
  return {
    recallBlock: blocks.recall,
    recallByName: blocks.recallByName,
    async reserve(scopes, email) {
      const askedMs = nowMs()
      const reservation = await attempts.reserve(scopes, email, clock())
      if (reservation.kind === 'blocked') blocks.remember(scopes, reservation, askedMs)
      else blocks.forget(scopes)
      return reservation
    },
    countWaiting: queues.count,
    waitForScope: queues.wait,
    wakeNext: queues.wakeNext,
    wake(scopes) {
      for (const { key } of scopes) queues.wakeNext(key)
    },
  }
}

/** Makes refusals cheap: while a scope is blocked, few attempts reach the database. */
function createBlockCache(clock: () => Date, nowMs: () => number) {
  type Known = { block: Block; at: Date; askedMs: number; isRevalidating: boolean }
  const cached = new Map<string, Known>()
  /** By the names of attempts, until the cache changes. */
  const byName = new Map<string | null, Known>()
  const isStale = (askedMs: number) => nowMs() - askedMs >= BLOCK_CACHED_MS
  // If the clock was set back since, the rest of the block would be too long.
  const isUsable = ({ block, at, askedMs }: Known, now: Date) =>
    !isStale(askedMs) && at <= now && now < block.blockedUntil
  const isDue = ({ askedMs, isRevalidating }: Known) =>
    !isRevalidating && nowMs() - askedMs >= REVALIDATE_MS

  return {
    recall(scopes: ThrottleScope[], name: string | null): Block | null {
      const now = clock()
      let longest: Known | null = null
      for (const { key } of scopes) {
        const known = cached.get(key)
        if (!known || !isUsable(known, now)) continue
        if (isDue(known)) {
          known.isRevalidating = true
          return null
        }
        if (!longest || known.block.blockedUntil > longest.block.blockedUntil) longest = known
      }
      if (longest && name !== null) byName.set(name, longest)
      return longest?.block ?? null
    },
    recallByName(name: string | null, now: Date): Block | null {
      const known = byName.get(name)
      return known && isUsable(known, now) && !isDue(known) ? known.block : null
    },
    forget(scopes: ThrottleScope[]): void {
      for (const { key } of scopes) cached.delete(key)
      byName.clear()
    },
    remember(scopes: ThrottleScope[], block: Block, askedMs: number): void {
      byName.clear()
      for (const [key, known] of cached) {
        if (!isStale(known.askedMs)) break
        cached.delete(key)
      }
      const key = scopes.find(({ name }) => name === block.scope)?.key
      if (key === undefined) return
      // Moves the entry to the end of the map, which is ordered by age.
      cached.delete(key)
      // Only the attempt that locked the user reports it.
      const recalled = { ...block, lockedUserId: null }
      cached.set(key, { block: recalled, at: clock(), askedMs, isRevalidating: false })
    },
  }
}

/** One queue per scope. Its first attempt is woken when one is settled, and from time to time to ask. */
function createQueues() {
  const queues = new Map<string, { waiting: Set<() => void>; polling: NodeJS.Timeout }>()

  function wakeNext(key: string): void {
    const [first] = queues.get(key)?.waiting ?? []
    first?.()
  }

  return {
    wakeNext,
    count: (key: string) => queues.get(key)?.waiting.size ?? 0,
    async wait(key: string, deadlineMs: number, isFirst: boolean): Promise<boolean> {
      const timeLeftMs = deadlineMs - performance.now()
      if (timeLeftMs <= 0) return false
      const queue = queues.get(key) ?? {
        waiting: new Set(),
        polling: setInterval(wakeNext, POLL_EVERY_MS, key),
      }
      queues.set(key, queue)
      if (queue.waiting.size >= MAX_WAITING) return false
      return new Promise<boolean>(resolve => {
        const leave = (isWoken: boolean) => () => {
          clearTimeout(timer)
          queue.waiting.delete(wake)
          if (queue.waiting.size === 0) {
            clearInterval(queue.polling)
            queues.delete(key)
          }
          resolve(isWoken)
        }
        const wake = leave(true)
        const timer = setTimeout(leave(false), timeLeftMs)
        if (isFirst) queue.waiting = new Set([wake, ...queue.waiting])
        else queue.waiting.add(wake)
      })
    },
  }
}
