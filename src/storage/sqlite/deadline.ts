// The time limit of an operation, known wherever the operation begins to write.
import { AsyncLocalStorage } from 'node:async_hooks'
import { SERVICE_OPERATION_TIMEOUT_MS } from '../sql/engine.ts'

/** Longer than the thread itself waits for a lock, so that its own error arrives first. */
export const TIMEOUT_MS = SERVICE_OPERATION_TIMEOUT_MS + 200
export const TOO_LATE = 'the database did not answer in time'

/** On the clock of `monotonicMs`; null for no limit. */
export const deadlines = new AsyncLocalStorage<number | null>()

/** The time at which the running operation must end. The operations of a command have none. */
export function currentDeadline(): number | null {
  return deadlines.getStore() ?? null
}

/** Throws when the time is over: the caller has got an error, so the operation must not take effect. */
export function checkDeadline(deadlineMs = currentDeadline()): void {
  if (deadlineMs !== null && deadlineMs < monotonicMs()) throw new Error(TOO_LATE)
}

/** One clock for all threads, unlike `performance.now()`. */
export function monotonicMs(): number {
  const [seconds, nanoseconds] = process.hrtime()
  return seconds * 1e3 + nanoseconds / 1e6
}
