// Guessing protection: an attempt takes its place in every scope before its password is looked at,
// and is settled afterwards, so that parallel guesses gain nothing.
import { digestOf } from '../digest.ts'
import type { Device, Reservation, ScopeName, Store, ThrottleScope } from '../storage/store.ts'

export type Budgets = Record<Exclude<ScopeName, 'device'>, number>

export type Admission = Exclude<Reservation, { kind: 'busy' }> | { kind: 'busy' }

/** A device that has logged in before has failures of its own, which nobody else can spend. */
const DEVICE_FAILURES = 5

/** How often one of those who wait looks for a place that another instance gave back. */
const LOOK_EVERY_MS = 100
/** As many as one client may have connections; who comes later is turned away at once. */
const MAX_WAITING = 256

export function throttleScopes(
  email: string,
  clientGroup: string,
  budgets: Budgets,
): ThrottleScope[] {
  const digest = digestOf(email)
  return [
    {
      name: 'pair',
      key: keyOf('pair', email, clientGroup),
      emailDigest: digest,
      maxFailures: budgets.pair,
    },
    { name: 'email', key: keyOf('email', email), emailDigest: digest, maxFailures: budgets.email },
    {
      name: 'client',
      key: keyOf('client', clientGroup),
      emailDigest: null,
      maxFailures: budgets.client,
    },
  ]
}

/** What a device that is known to the account draws on, instead of all three scopes. */
export function deviceScopes(email: string, device: Device): ThrottleScope[] {
  return [
    {
      name: 'device',
      key: keyOf('device', device.id),
      emailDigest: digestOf(email),
      maxFailures: DEVICE_FAILURES,
    },
  ]
}

function keyOf(...parts: string[]): string {
  return digestOf(JSON.stringify(parts))
}

export type Throttle = {
  /** Waits its turn while the scopes are full of attempts being verified, until the deadline. */
  reserve(scopes: ThrottleScope[], email: string, deadlineMs: number): Promise<Admission>
  /** Tells those who wait for one of these scopes that a place may be free. */
  settled(scopes: ThrottleScope[]): void
}

export function createThrottle(store: Store, clock: () => Date): Throttle {
  const queues = createQueues()
  return {
    async reserve(scopes, email, deadlineMs) {
      for (;;) {
        const reservation = await store.reserveAttempt(scopes, email, clock())
        if (reservation.kind !== 'busy') {
          // Who is through wakes the next: there may be more places, or a refusal for all.
          for (const { key } of scopes) queues.wakeNext(key)
          return reservation
        }
        if (!(await queues.wait(reservation.key, deadlineMs))) return { kind: 'busy' }
      }
    },
    settled(scopes) {
      for (const { key } of scopes) queues.wakeNext(key)
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
    /** False at the deadline, or if too many wait already. */
    async wait(key: string, deadlineMs: number): Promise<boolean> {
      const timeLeftMs = deadlineMs - performance.now()
      if (timeLeftMs <= 0) return false
      const queue = queues.get(key) ?? {
        waiting: new Set(),
        looking: setInterval(wakeNext, LOOK_EVERY_MS, key),
      }
      queues.set(key, queue)
      const { waiting, looking } = queue
      if (waiting.size >= MAX_WAITING) return false
      return new Promise<boolean>(resolve => {
        const leave = (isWoken: boolean) => () => {
          clearTimeout(timer)
          waiting.delete(wake)
          if (waiting.size === 0) {
            clearInterval(looking)
            queues.delete(key)
          }
          resolve(isWoken)
        }
        const wake = leave(true)
        const timer = setTimeout(leave(false), timeLeftMs)
        waiting.add(wake)
      })
    },
  }
}
