// The store of the service on SQLite: passes every operation to a thread that uses the file (`worker.ts`),
// because a commit blocks its thread until the disk has synced. Starts the thread again after it has died.
import { getCompileCacheDir } from 'node:module'
import { fileURLToPath } from 'node:url'
import { Worker } from 'node:worker_threads'
import { IN_BATCHES, makeParts, type OperationName } from '../../domain/operations.ts'
import type { Store } from '../../domain/store.ts'
import { monotonicMs, TIMEOUT_MS, TOO_LATE } from './deadline.ts'

export type Call = {
  id: number
  operation: OperationName | 'close'
  values: unknown[]
  /** On the clock of `monotonicMs`; null for no limit. */
  deadlineMs: number | null
}

export type Answer = { id: number } & (
  | { result: unknown }
  /** A cloned error loses its own properties, such as its code. */
  | { error: unknown; properties: object }
)

type Pending = {
  resolve: (result: unknown) => void
  reject: (error: unknown) => void
  timer: NodeJS.Timeout | null
}

const WORKER = new URL('worker.ts', import.meta.url)
const IMPORT_HOOK = fileURLToPath(new URL('../../import-hook.cjs', import.meta.url))
const CACHE = getCompileCacheDir()
/** The thread, like the main one, strips types once and hides warnings of features. */
const ENVIRONMENT = { NODE_NO_WARNINGS: '1', ...(CACHE && { NODE_COMPILE_CACHE: CACHE }) }
/** It holds compiled statements and the operations in progress. More would be a leak. */
const RESOURCE_LIMITS = { maxOldGenerationSizeMb: 64, maxYoungGenerationSizeMb: 8 }
/** While the disk does not sync, waiting operations must not use up the memory. */
const MAX_UNANSWERED = 10_000
/** A timer may fire so much too early. When the caller gives up, the thread must know that the time is over. */
const TIMER_ERROR_MS = 2

/** `onLost` is called when the thread has died and its operations have been rejected. */
export function openInThread(file: string, onLost: (error: Error) => void): Store {
  const pending = new Map<number, Pending>()
  let nextId = 0
  /** Includes operations that were given up, until the thread has seen them. */
  let unanswered = 0
  let isOpen = true
  let worker: Worker | null = startWorker()

  function startWorker(): Worker {
    const started = new Worker(WORKER, {
      workerData: file,
      env: { ...process.env, ...ENVIRONMENT },
      execArgv: ['--require', IMPORT_HOOK],
      resourceLimits: RESOURCE_LIMITS,
    })
    let failure = new Error('the database thread ended')
    started.on('message', settle)
    started.on('error', (error: Error) => {
      failure = error
    })
    started.on('exit', () => {
      worker = null
      unanswered = 0
      for (const id of pending.keys()) end(id)?.reject(failure)
      if (isOpen) onLost(failure)
    })
    return started
  }

  /** Ignores an answer that comes after the limit. */
  function settle(answer: Answer): void {
    unanswered--
    if ('result' in answer) end(answer.id)?.resolve(answer.result)
    else end(answer.id)?.reject(Object.assign(Object(answer.error), answer.properties))
  }

  function end(id: number): Pending | undefined {
    const call = pending.get(id)
    pending.delete(id)
    if (call?.timer) clearTimeout(call.timer)
    return call
  }

  function call(operation: Call['operation'], given: unknown[]): Promise<unknown> {
    const { promise, resolve, reject } = Promise.withResolvers()
    const id = nextId++
    // Functions cannot be sent: the progress of a migration, which is short on SQLite, is not reported.
    const values = given.filter(value => typeof value !== 'function')
    const hasLimit = !IN_BATCHES.some(name => name === operation)
    const deadlineMs = hasLimit ? monotonicMs() + TIMEOUT_MS : null
    worker ??= startWorker()
    worker.postMessage({ id, operation, values, deadlineMs })
    unanswered++
    const giveUp = () => end(id)?.reject(new Error(TOO_LATE))
    const timer = hasLimit ? setTimeout(giveUp, TIMEOUT_MS + TIMER_ERROR_MS) : null
    pending.set(id, { resolve, reject, timer })
    return promise
  }

  async function close(): Promise<void> {
    isOpen = false
    if (!worker) return
    // If the thread does not answer, it is ended all the same.
    await call('close', []).catch(() => {})
    // This is not awaited: a thread does not end while the disk blocks it in a system call.
    void worker?.terminate()
  }

  const parts = makeParts(name => async (...values) => {
    if (!isOpen) throw new Error('the database has been closed')
    if (unanswered >= MAX_UNANSWERED) throw new Error(TOO_LATE)
    return call(name, values)
  })
  return { ...parts, close }
}
