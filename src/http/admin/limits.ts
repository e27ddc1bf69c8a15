// Limits of the admin API, in memory and per instance.
import { type AdminDeps, type AdminStore, changeNow } from '../../admin/operations/deps.ts'
import { IN_BATCHES, wrapMethods } from '../../domain/operations.ts'

/** A back office needs a few requests per second, and an import from another system many at a time. */
const REQUESTS_PER_SECOND = 100
const REQUESTS_AT_ONCE = 200
const MAX_FAILURES = 20
const FAILURES_WINDOW_MS = 60_000
/** A hash takes a core, and so does a read of the whole throttle. One at a time leaves the others to logins. */
const MAX_WAITING = 16
/** A page of a list takes up to 0.1 s. Behind many of them, an operation of a login would come too late. */
const MAX_WAITING_FOR_STORE = REQUESTS_AT_ONCE

/** A bucket per token: full at the start, and refilled evenly. */
export function createRequestLimit(nowMs = () => performance.now()) {
  const buckets = new Map<string, { left: number; atMs: number }>()
  /** False if the token has no request left at this moment; it has one again within a second. */
  return (name: string): boolean => {
    const now = nowMs()
    const { left, atMs } = buckets.get(name) ?? { left: REQUESTS_AT_ONCE, atMs: now }
    const refilled = left + ((now - atMs) / 1000) * REQUESTS_PER_SECOND
    const available = Math.min(REQUESTS_AT_ONCE, refilled)
    const isAllowed = available >= 1
    buckets.set(name, { left: isAllowed ? available - 1 : available, atMs: now })
    return isAllowed
  }
}

/** Counts refused tokens per client. A valid token is never refused because of them. */
export function createFailureLimit(nowMs = () => performance.now()) {
  const windows = new Map<string, { endsAtMs: number; failures: number }>()
  /** Counts a failure; returns the seconds to wait if it was one too many. */
  return (client: string): number | null => {
    const now = nowMs()
    // A map keeps the order of insertion, so the oldest windows come first.
    for (const [key, { endsAtMs }] of windows) {
      if (endsAtMs > now) break
      windows.delete(key)
    }
    const window = windows.get(client) ?? { endsAtMs: now + FAILURES_WINDOW_MS, failures: 0 }
    windows.set(client, window)
    window.failures++
    return window.failures <= MAX_FAILURES ? null : Math.ceil((window.endsAtMs - now) / 1000)
  }
}

export class TooMuchWork extends Error {}

/** Runs one operation at a time, in their order. Throws TooMuchWork if too many wait. */
export function createWorkQueue(maxWaiting = MAX_WAITING) {
  let unfinished = 0
  let last: Promise<unknown> = Promise.resolve()
  return <T>(operation: () => Promise<T>): Promise<T> => {
    if (unfinished > maxWaiting) return Promise.reject(new TooMuchWork())
    unfinished++
    const result = last.then(operation).finally(() => {
      unfinished--
    })
    last = result.catch(() => {})
    return result
  }
}

export type WorkQueue = ReturnType<typeof createWorkQueue>

/** The same store, with a queue before it. Operations in batches do not queue: others run between two batches. */
export function queueOperations(store: AdminStore): AdminStore {
  const queue = createWorkQueue(MAX_WAITING_FOR_STORE)
  return wrapMethods(store, (name, operation) =>
    IN_BATCHES.includes(name) ? operation : (...values) => queue(() => operation(...values)),
  )
}

const HOUR_MS = 3600_000

export type ReadRecord = ReturnType<typeof createReadRecord>

/**
 * Records that a token reads the audit: once in an hour per address. A program that follows the audit may read it every
 * second, and would otherwise add more events than it reads.
 */
export function createReadRecord() {
  let hour = 0
  let recorded = new Set<string>()
  return async (deps: AdminDeps): Promise<void> => {
    const { name, host } = deps.by
    const key = `${name} ${host}`
    const current = Math.floor(deps.clock().getTime() / HOUR_MS)
    if (current !== hour) recorded = new Set()
    hour = current
    if (recorded.has(key)) return
    const event = { action: 'audit.read', target: 'audit', targetId: null } as const
    await deps.store.audit.record(changeNow(deps), [event])
    recorded.add(key)
  }
}
