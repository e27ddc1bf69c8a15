// Guessing protection: an attempt takes its place in every scope before its password is looked at,
// and is settled afterwards, so that parallel guesses gain nothing.
import { digestOf } from '../digest.ts'
import type { Device, Reservation, ScopeName, Store, ThrottleScope } from '../storage/store.ts'

export type Budgets = Record<Exclude<ScopeName, 'device'>, number>

type Refusal = Extract<Reservation, { kind: 'refused' }>

/** A device that has logged in before has failures of its own, which nobody else can spend. */
const DEVICE_FAILURES = 5
/**
 * Slow guessing at one email from many addresses would otherwise get 1,920 failures in a day. Beyond
 * these, one failure in 15 minutes is left: some 190 in all.
 */
const DAILY_EMAIL_FAILURES = 100

/** For so long a block is taken as it was. Then one attempt asks anew, and it is for the others … */
const RECALL_MS = 100
/** … until it is forgotten: what an administrator changed counts for everyone by then. */
export const FORGOTTEN_MS = 2 * RECALL_MS
/** How often one of those who wait looks for a place that another instance gave back. */
const LOOK_EVERY_MS = 100
/** As many as one client may have connections; who comes later is turned away at once. */
const MAX_WAITING = 256

export function throttleScopes(
  email: string,
  { group, network }: { group: string; network: string | null },
  budgets: Budgets,
): ThrottleScope[] {
  const emailDigest = digestOf(email)
  const scopes = [
    toScope('pair', [email, group], emailDigest, budgets.pair),
    {
      ...toScope('email', [email], emailDigest, budgets.email),
      // An operator who allows more in 15 minutes does not mean less in a day.
      maxDailyFailures: Math.max(DAILY_EMAIL_FAILURES, budgets.email),
    },
    toScope('client', [group], null, budgets.client),
  ]
  if (network !== null) scopes.push(toScope('network', [network], null, budgets.network))
  return scopes
}

/** What a device that is known to the account draws on, instead of all other scopes. */
export function deviceScopes(email: string, device: Device): ThrottleScope[] {
  return [toScope('device', [device.id], digestOf(email), DEVICE_FAILURES)]
}

function toScope(
  name: ScopeName,
  counted: string[],
  emailDigest: string | null,
  maxFailures: number,
): ThrottleScope {
  const key = digestOf(JSON.stringify([name, ...counted]))
  return { name, key, emailDigest, maxFailures, maxDailyFailures: null }
}

export type Throttle = {
  /** A refusal of one of these scopes that is too recent to be asked for again. */
  recallRefusal(scopes: ThrottleScope[]): Refusal | null
  reserve(scopes: ThrottleScope[], email: string): Promise<Reservation>
  countWaiting(key: string): number
  /**
   * Waits until a place in this scope may be free, as the last of all or as the first; false at the
   * deadline, or if too many wait. Who had a turn and does not take it wakes the next.
   */
  waitForPlace(key: string, deadlineMs: number, isFirst: boolean): Promise<boolean>
  wakeNext(key: string): void
  /** Tells those who wait for one of these scopes that a place may be free. */
  settled(scopes: ThrottleScope[]): void
}

export function createThrottle(
  store: Store,
  clock: () => Date,
  nowMs = () => performance.now(),
): Throttle {
  const queues = createQueues()
  const refusals = createRefusals(clock, nowMs)
  return {
    recallRefusal: refusals.recall,
    async reserve(scopes, email) {
      const askedMs = nowMs()
      const reservation = await store.reserveAttempt(scopes, email, clock())
      if (reservation.kind === 'refused') refusals.remember(scopes, reservation, askedMs)
      else refusals.forget(scopes)
      return reservation
    },
    countWaiting: queues.count,
    waitForPlace: queues.wait,
    wakeNext: queues.wakeNext,
    settled(scopes) {
      for (const { key } of scopes) queues.wakeNext(key)
    },
  }
}

/** The blocks seen a moment ago: whoever storms a closed door costs next to nothing. */
function createRefusals(clock: () => Date, nowMs: () => number) {
  const recent = new Map<string, { refusal: Refusal; askedMs: number; isAskedAnew: boolean }>()
  const isForgotten = (askedMs: number) => nowMs() - askedMs >= FORGOTTEN_MS

  return {
    recall(scopes: ThrottleScope[]): Refusal | null {
      let longest: Refusal | null = null
      for (const { key } of scopes) {
        const known = recent.get(key)
        if (!known || isForgotten(known.askedMs) || known.refusal.blockedUntil <= clock()) continue
        if (nowMs() - known.askedMs >= RECALL_MS && !known.isAskedAnew) {
          known.isAskedAnew = true
          return null
        }
        if (!longest || known.refusal.blockedUntil > longest.blockedUntil) longest = known.refusal
      }
      return longest
    },
    forget(scopes: ThrottleScope[]): void {
      for (const { key } of scopes) recent.delete(key)
    },
    remember(scopes: ThrottleScope[], refusal: Refusal, askedMs: number): void {
      for (const [key, known] of recent) {
        if (!isForgotten(known.askedMs)) break
        recent.delete(key)
      }
      const key = scopes.find(({ name }) => name === refusal.scope)?.key
      if (key === undefined) return
      // To the end, where the newest are.
      recent.delete(key)
      // Only the first refusal tells of the lock that it set.
      const recalled = { ...refusal, lockedUserId: null }
      recent.set(key, { refusal: recalled, askedMs, isAskedAnew: false })
    },
  }
}

/** One queue a key. The first in it is woken when a place may be free, or to look for itself. */
function createQueues() {
  const queues = new Map<string, { waiting: Set<() => void>; looking: NodeJS.Timeout }>()

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
        looking: setInterval(wakeNext, LOOK_EVERY_MS, key),
      }
      queues.set(key, queue)
      if (queue.waiting.size >= MAX_WAITING) return false
      return new Promise<boolean>(resolve => {
        const leave = (isWoken: boolean) => () => {
          clearTimeout(timer)
          queue.waiting.delete(wake)
          if (queue.waiting.size === 0) {
            clearInterval(queue.looking)
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
