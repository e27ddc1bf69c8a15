// The engine `lanes`: one worker per thread, each with the lanes of the kernel. The next job of a thread
// replaces a worker that has died.
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Worker } from 'node:worker_threads'
import { parseHash } from './hash-text.ts'
import type { Hasher } from './hasher.ts'
import type { Done, Job } from './lanes.js'
import { MAX_LANES } from './memory.js'
import type { KnownAnswer, Message, WorkerData } from './worker.js'

type Running = {
  lane: number
  resolve: (digest: Buffer | null) => void
  reject: (error: Error) => void
}
type Thread = {
  /** Null after it has died. */
  worker: Worker | null
  /** By the ids of the jobs. */
  running: Map<number, Running>
  /** Written by the worker, see `createLanes`. */
  times: Float64Array
}

const WORKER = join(import.meta.dirname, 'worker.js')
const KERNEL = join(import.meta.dirname, 'kernel.wasm')
/** A worker holds some objects and the kernel's memory. More would be a leak. */
const RESOURCE_LIMITS = { maxOldGenerationSizeMb: 16, maxYoungGenerationSizeMb: 2 }
/** One more lane must raise the throughput by this factor, because each hash then takes longer. */
const SMALLEST_GAIN = 1.03

/** Test vectors of Openwall's crypt_blowfish (wrapper.c), one per lane, which a worker checks at its start. */
const KNOWN_ANSWERS = [
  ['U*U', '$2a$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW'],
  ['U*U*', '$2a$05$CCCCCCCCCCCCCCCCCCCCC.VGOzA784oUp/Z0DY336zx7pLYAy0lwK'],
  ['U*U*U', '$2a$05$XXXXXXXXXXXXXXXXXXXXXOAcXxm9kjPGEMsLznoKqmqw7tc8WCx4a'],
] as const

/** `onLost` is called when a worker has died and its jobs have been rejected. */
export async function openLanes(threads: number, onLost: (error: Error) => void): Promise<Hasher> {
  // Compiled once: the workers share its machine code.
  const module = new WebAssembly.Module(readFileSync(KERNEL))
  const knownAnswers = KNOWN_ANSWERS.map(([password, hash]) => toKnownAnswer(password, hash))
  const pool = Array.from({ length: threads }, createThread)
  let isOpen = false
  let nextId = 0

  function startWorker(thread: Thread): Worker {
    const workerData: WorkerData = { module, times: thread.times, knownAnswers }
    const worker = new Worker(WORKER, {
      workerData,
      execArgv: [],
      env: {},
      resourceLimits: RESOURCE_LIMITS,
    })
    let failure = new Error('a hashing thread ended')
    worker.on('message', (message: Done | 'ready') => {
      if (message !== 'ready') end(thread, message.id)?.resolve(Buffer.from(message.digest))
    })
    worker.on('error', (error: Error) => {
      failure = error
    })
    worker.on('exit', () => {
      thread.worker = null
      for (const { reject } of thread.running.values()) reject(failure)
      thread.running.clear()
      if (isOpen) onLost(failure)
    })
    thread.worker = worker
    return worker
  }

  async function close() {
    isOpen = false
    await Promise.all(pool.map(({ worker }) => worker?.terminate()))
  }

  try {
    await Promise.all(pool.map(thread => once(startWorker(thread), 'message')))
  } catch (error) {
    await close()
    throw error
  }
  isOpen = true
  for (const { worker } of pool) worker?.unref()
  const lanes = bestLanes(pool)

  return {
    name: 'lanes',
    threads,
    roundMs(thread) {
      const [slowdown = 1, ...fastestMs] = at(pool, thread).times
      return fastestMs.slice(0, lanes).map(ms => ms * slowdown)
    },
    start(index, { password, salt, rounds, totalRounds }) {
      if (!isOpen) throw new Error('the hashing threads have been closed')
      const thread = at(pool, index)
      const { running } = thread
      const lane = freeLane(thread, lanes)
      const worker = thread.worker ?? startWorker(thread)
      const id = nextId++
      const roundsLeft = new Float64Array(new SharedArrayBuffer(Float64Array.BYTES_PER_ELEMENT))
      roundsLeft[0] = totalRounds
      const key = toKey(password)
      // A copy of the salt: a message with a part of Node's shared buffer would contain all of it.
      const job: Job = {
        ...{ id, lane, key, salt: new Uint8Array(salt) },
        ...{ rounds, totalRounds, roundsLeft },
      }
      const { promise, resolve, reject } = Promise.withResolvers<Buffer | null>()
      running.set(id, { lane, resolve, reject })
      worker.ref()
      worker.postMessage(job satisfies Message, [key.buffer])
      return {
        thread: index,
        roundsLeft: () => roundsLeft[0] ?? 0,
        digest: promise,
        cancel() {
          if (!running.has(id)) return
          worker.postMessage({ cancelledId: id } satisfies Message)
          end(thread, id)?.resolve(null)
        },
      }
    },
    close,
  }
}

function createThread(): Thread {
  const bytes = (1 + MAX_LANES) * Float64Array.BYTES_PER_ELEMENT
  const times = new Float64Array(new SharedArrayBuffer(bytes))
  times.fill(Number.POSITIVE_INFINITY)
  times[0] = 1
  return { worker: null, running: new Map(), times }
}

/** Frees the job's lane; undefined if the job has ended before. */
function end({ worker, running }: Thread, id: number): Running | undefined {
  const job = running.get(id)
  running.delete(id)
  // A worker without a job does not keep the process alive.
  if (running.size === 0) worker?.unref()
  return job
}

function freeLane({ running }: Thread, lanes: number): number {
  const taken = new Set(Array.from(running.values(), job => job.lane))
  for (let lane = 0; lane < lanes; lane++) if (!taken.has(lane)) return lane
  throw new Error('the thread has no free lane')
}

/** The number of lanes with the highest throughput, by the fastest rounds of all threads. */
function bestLanes(pool: Thread[]): number {
  const hashesPerMs = (lanes: number) =>
    lanes / Math.min(...pool.map(({ times }) => times[lanes] ?? 0))
  let best = 1
  for (let lanes = 2; lanes <= MAX_LANES; lanes++) {
    if (hashesPerMs(lanes) >= hashesPerMs(best) * SMALLEST_GAIN) best = lanes
  }
  return best
}

/** The password and a NUL. Outside V8's heap, where small arrays are copied and the copies stay. */
function toKey(password: Buffer) {
  const key = new Uint8Array(new ArrayBuffer(password.length + 1))
  key.set(password)
  password.fill(0)
  return key
}

function toKnownAnswer(password: string, text: string): KnownAnswer {
  const hash = parseHash(text)
  if (!hash) throw new Error(`not a hash: ${text}`)
  const key = toKey(Buffer.from(password))
  return {
    ...{ key, salt: new Uint8Array(hash.salt), digest: new Uint8Array(hash.digest) },
    rounds: 2 ** hash.cost,
  }
}

function at(pool: Thread[], index: number): Thread {
  const thread = pool[index]
  if (!thread) throw new Error(`there is no thread ${index}`)
  return thread
}
