// One worker thread per core, each with the lanes of the kernel. A worker that dies is replaced.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Worker } from 'node:worker_threads'
import { MAX_LANES } from './memory.js'

export { MAX_LANES }

export type Job = {
  /** At most 72 bytes. The pool overwrites it with zeros. */
  password: Buffer
  /** 16 bytes. */
  salt: Buffer
  /** The digest is taken after this many rounds: 2^cost. */
  rounds: number
  /** Rounds in all. Those after the digest have no result: they make a cheaper hash take as long. */
  totalRounds: number
}

export type Pool = {
  workers: number
  /** Starts the hash at once, on the worker with the fewest busy lanes. Rejects if the worker dies. */
  run(job: Job): Promise<Buffer>
  /** How long one round takes if this many lanes of its worker are busy, as measured last. */
  roundMs(busyLanes: number): number
  close(): Promise<void>
}

type Pending = { resolve: (digest: Buffer) => void; reject: (error: Error) => void }
type Thread = { worker: Worker; pending: Map<number, Pending>; roundMs: number[] }
type Message = { roundMs: number[]; id?: number; digest?: Uint8Array }

const WORKER = join(import.meta.dirname, 'worker.js')
/** A worker holds some objects and the kernel's memory. More would be a leak. */
const RESOURCE_LIMITS = { maxOldGenerationSizeMb: 16, maxYoungGenerationSizeMb: 2 }

/** `onLost` is called when a worker has died and its jobs have failed. */
export async function openPool(workers: number, onLost: (error: Error) => void): Promise<Pool> {
  // Compiled once: the workers share its machine code.
  const module = new WebAssembly.Module(readFileSync(join(import.meta.dirname, 'kernel.wasm')))
  let isClosing = false
  let nextId = 0

  async function startThread(index: number): Promise<Thread> {
    const worker = new Worker(WORKER, {
      workerData: { module },
      execArgv: [],
      env: {},
      resourceLimits: RESOURCE_LIMITS,
    })
    const thread: Thread = { worker, pending: new Map(), roundMs: [] }
    let failure = new Error('a hashing thread ended')
    worker.on('error', error => {
      failure = error instanceof Error ? error : failure
    })
    worker.on('exit', () => {
      for (const { reject } of thread.pending.values()) reject(failure)
      thread.pending.clear()
      if (isClosing || threads[index] !== thread) return
      onLost(failure)
      startThread(index).then(
        started => {
          threads[index] = started
        },
        // It ends at its start too: the next job is rejected, and starts another.
        onLost,
      )
    })
    const ready = new Promise<void>((resolve, reject) => {
      worker.once('error', reject).once('exit', () => reject(failure))
      worker.on('message', ({ roundMs, id, digest }: Message) => {
        thread.roundMs = roundMs
        if (id === undefined || !digest) return resolve()
        const waiting = thread.pending.get(id)
        thread.pending.delete(id)
        // A thread without a job does not keep the process alive.
        if (thread.pending.size === 0) worker.unref()
        waiting?.resolve(Buffer.from(digest.buffer, digest.byteOffset, digest.byteLength))
      })
    })
    await ready
    worker.unref()
    return thread
  }

  const threads: Thread[] = []
  threads.push(...(await Promise.all(Array.from({ length: workers }, (_, i) => startThread(i)))))

  return {
    workers,
    run({ password, salt, rounds, totalRounds }) {
      const thread = threads.toSorted((a, b) => a.pending.size - b.pending.size)[0]
      if (!thread) throw new Error('the pool has no thread')
      const id = nextId++
      const key = new Uint8Array(password.length + 1)
      key.set(password)
      password.fill(0)
      return new Promise<Buffer>((resolve, reject) => {
        thread.pending.set(id, { resolve, reject })
        thread.worker.ref()
        thread.worker.postMessage({ id, key, salt, rounds, totalRounds }, [key.buffer])
      })
    },
    roundMs(busyLanes) {
      return Math.max(...threads.map(thread => thread.roundMs[busyLanes] ?? 0))
    },
    async close() {
      isClosing = true
      await Promise.all(threads.map(({ worker }) => worker.terminate()))
    },
  }
}
