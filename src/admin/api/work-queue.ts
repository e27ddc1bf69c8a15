// Queues of the admin API, in memory and per instance, so that its work does not delay logins.
import { IN_BATCHES, wrapMethods } from '../../domain/operations.ts'
import { DatabaseBusy } from '../../domain/store.ts'
import type { AdminStore } from '../operations/deps.ts'

/** A hash takes a core, and so does a read of the whole throttle. One at a time leaves the others to logins. */
const MAX_WAITING = 16
/** A page of a list takes up to 0.1 s. Behind many of them, an operation of a login would come too late. */
const MAX_WAITING_FOR_STORE = 200

export class TooMuchWork extends DatabaseBusy {}

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

/** The same store, with a queue before it. Operations in batches do not queue: others run between two batches. */
export function queueOperations(store: AdminStore): AdminStore {
  const queue = createWorkQueue(MAX_WAITING_FOR_STORE)
  return wrapMethods(store, (name, operation) =>
    IN_BATCHES.includes(name) ? operation : (...values) => queue(() => operation(...values)),
  )
}
