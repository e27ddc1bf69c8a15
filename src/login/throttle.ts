// Guessing protection: an attempt takes its place in every scope before its password is looked at,
// and is settled afterwards, so that parallel guesses gain nothing.
import { createHash } from 'node:crypto'
import type { Device, Reservation, ScopeName, Store, ThrottleScope } from '../storage/store.ts'
import { emailDigest } from './credentials.ts'

export type Budgets = Record<Exclude<ScopeName, 'device'>, number>

export type Admission = Exclude<Reservation, { kind: 'busy' }> | { kind: 'busy' }

/** A device that has logged in before has failures of its own, which nobody else can spend. */
const DEVICE_FAILURES = 5

/** How often a waiting attempt asks again, for places that another instance gives back. */
const POLL_MS = 100

export function throttleScopes(
  email: string,
  clientGroup: string,
  budgets: Budgets,
): ThrottleScope[] {
  const digest = emailDigest(email)
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
      emailDigest: emailDigest(email),
      maxFailures: DEVICE_FAILURES,
    },
  ]
}

function keyOf(...parts: string[]): string {
  return createHash('sha256').update(JSON.stringify(parts)).digest('hex')
}

export type Throttle = {
  /** Waits its turn while the scopes are full of attempts being verified, at most `patienceMs`. */
  reserve(scopes: ThrottleScope[], email: string, patienceMs: number): Promise<Admission>
  /** Tells those who wait for one of these scopes that a place may be free. */
  settled(scopes: ThrottleScope[]): void
}

export function createThrottle(store: Store, clock: () => Date): Throttle {
  const queues = createQueues()
  return {
    async reserve(scopes, email, patienceMs) {
      const deadline = performance.now() + patienceMs
      for (;;) {
        const reservation = await store.reserveAttempt(scopes, email, clock())
        if (reservation.kind !== 'busy') {
          // Who is through wakes the next: there may be more places, or a refusal for all.
          for (const { key } of scopes) queues.wakeNext(key)
          return reservation
        }
        const patienceLeftMs = deadline - performance.now()
        if (patienceLeftMs <= 0) return { kind: 'busy' }
        await queues.wait(reservation.key, Math.min(POLL_MS, patienceLeftMs))
      }
    },
    settled(scopes) {
      for (const { key } of scopes) queues.wakeNext(key)
    },
  }
}

/** One queue a key; who waits is woken in order, or by itself after a while. */
function createQueues() {
  const queues = new Map<string, Set<() => void>>()
  return {
    wait(key: string, timeoutMs: number): Promise<void> {
      return new Promise(resolve => {
        const queue = queues.get(key) ?? new Set()
        queues.set(key, queue)
        const wake = () => {
          clearTimeout(timer)
          queue.delete(wake)
          if (queue.size === 0 && queues.get(key) === queue) queues.delete(key)
          resolve()
        }
        const timer = setTimeout(wake, timeoutMs)
        queue.add(wake)
      })
    },
    wakeNext(key: string): void {
      const [first] = queues.get(key) ?? []
      first?.()
    },
  }
}
