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
/** This many attempts may wait for a scope, as many as one client may have connections. Further ones are shed. */
const MAX_WAITING = 256

/** The operations of the store on attempts, and what this process knows of them. */
export type Throttle = AttemptStore & {
  /** A cached block of one of these scopes. */
  recallBlock(scopes: ThrottleScope[]): Block | null
  /** A place in the line for a busy scope; null if too many wait. It must be left. */
  joinLine(key: string): PlaceInLine | null
}

export type PlaceInLine = {
  /** Waits until it is this attempt's turn to reserve again; false at the deadline. */
  turn(deadlineMs: number): Promise<boolean>
  leave(): void
}

export function createThrottle(
  attempts: AttemptStore,
  clock: () => Date,
  nowMs = () => performance.now(),
): Throttle {
  const blocks = createBlockCache(clock, nowMs)
  const lines = createLines()

  /** Wakes the first attempt that waits for each scope: a pending attempt in them has ended. */
  async function ending<T>(scopes: ThrottleScope[], settling: Promise<T>): Promise<T> {
    try {
      return await settling
    } finally {
      for (const { key } of scopes) lines.wakeFirst(key)
    }
  }

  return {
    recallBlock: blocks.recall,
    joinLine: lines.join,
    async reserve(scopes, email, now) {
      const askedMs = nowMs()
      const reservation = await attempts.reserve(scopes, email, now)
      if (reservation.kind === 'blocked') blocks.remember(scopes, reservation, askedMs)
      else blocks.forget(scopes)
      return reservation
    },
    release: scopes => ending(scopes, attempts.release(scopes)),
    fail: (scopes, userId, now) => ending(scopes, attempts.fail(scopes, userId, now)),
    pass: (scopes, login) => ending(scopes, attempts.pass(scopes, login)),
    succeed: (opening, scopes, now) => ending(scopes, attempts.succeed(opening, scopes, now)),
  }
}

/** Makes refusals cheap: while a scope is blocked, few attempts reach the database. */
function createBlockCache(clock: () => Date, nowMs: () => number) {
  /** Ordered by age. */
  const cached = new Map<string, { block: Block; askedMs: number; isRevalidating: boolean }>()
  return {
    recall(scopes: ThrottleScope[]): Block | null {
      const now = clock()
      let longest: Block | null = null
      for (const { key } of scopes) {
        const known = cached.get(key)
        const ageMs = known ? nowMs() - known.askedMs : BLOCK_CACHED_MS
        if (!known || ageMs >= BLOCK_CACHED_MS || known.block.blockedUntil <= now) continue
        if (ageMs >= REVALIDATE_MS && !known.isRevalidating) {
          known.isRevalidating = true
          return null
        }
        if (!longest || known.block.blockedUntil > longest.blockedUntil) longest = known.block
      }
      return longest
    },
    forget(scopes: ThrottleScope[]): void {
      for (const { key } of scopes) cached.delete(key)
    },
    remember(scopes: ThrottleScope[], block: Block, askedMs: number): void {
      for (const [key, known] of cached) {
        if (nowMs() - known.askedMs < BLOCK_CACHED_MS) break
        cached.delete(key)
      }
      const key = scopes.find(({ name }) => name === block.scope)?.key
      if (key === undefined) return
      cached.delete(key)
      // Only the attempt that locked the user reports it.
      cached.set(key, { block: { ...block, lockedUserId: null }, askedMs, isRevalidating: false })
    },
  }
}

/** Attempts that wait for a busy scope stand in a line. Only the first one of a line asks the store. */
function createLines() {
  const lines = new Map<string, (() => void)[]>()
  return {
    wakeFirst: (key: string) => lines.get(key)?.[0]?.(),
    join(key: string): PlaceInLine | null {
      const line = lines.get(key) ?? []
      if (line.length >= MAX_WAITING) return null
      lines.set(key, line)
      let wake = () => {}
      const place = () => wake()
      line.push(place)
      return {
        async turn(deadlineMs) {
          for (;;) {
            const leftMs = deadlineMs - performance.now()
            if (leftMs <= 0) return false
            const { promise: woken, resolve } = Promise.withResolvers<void>()
            wake = resolve
            const timer = setTimeout(
              resolve,
              line[0] === place ? Math.min(POLL_EVERY_MS, leftMs) : leftMs,
            )
            await woken
            clearTimeout(timer)
            if (line[0] === place) return true
          }
        },
        leave() {
          line.splice(line.indexOf(place), 1)
          // The scope may have room for the next attempt too, or be blocked for all of them.
          if (line[0]) line[0]()
          else lines.delete(key)
        },
      }
    },
  }
}
