// The engine `lanes`: one worker per thread, each with the lanes of the kernel. The next job of a thread
// replaces a worker that has died.
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Worker } from 'node:worker_threads'
import { fasterKernel } from './faster-kernel.ts'
import { parseHash } from './hash-text.ts'
import type { Hasher } from './hasher.ts'
import { type Done, type Job, type Speed, shareNumbers } from './lanes.js'
import { MAX_LANES } from './memory.js'
import type { KnownAnswer, Message, WorkerData } from './worker.js'

type Running = {
  resolve: (digest: Buffer | null) => void
  reject: (error: Error) => void
}
type Thread = {
  /** Null after it has died. */
  worker: Worker | null
  /** By the ids of the jobs. */
  running: Map<number, Running>
  /** Written by the worker; the fastest rounds are those of all workers. */
  speed: Speed
}

const WORKER = join(import.meta.dirname, 'worker.js')
const KERNEL = join(import.meta.dirname, 'kernel.wasm')
/** A worker holds some objects and the kernel's memory. More would be a leak. */
const RESOURCE_LIMITS = { maxOldGenerationSizeMb: 16, maxYoungGenerationSizeMb: 2 }

/** This share of the highest throughput is enough: with more lanes, each hash would only take longer. */
const ENOUGH = 0.97

/** Test vectors of pyca/bcrypt, one per lane, which a worker checks at its start. Their cost is the lowest. */
const KNOWN_ANSWERS = [
  ['Kk4DQuMMfZL9o', '$2b$04$cVWp4XaNU8a4v1uMRum2SO026BWLIoQMD/TXg5uZV.0P.uO8m3YEm'],
  ['9IeRXmnGxMYbs', '$2b$04$pQ7gRO7e6wx/936oXhNjrOUNOHL1D0h1N2IDbJZYs.1ppzSof6SPy'],
  ['xVQVbwa1S0M8r', '$2b$04$SQe9knOzepOVKoYXo9xTteNYr6MBwVz4tpriJVe3PNgYufGIsgKcW'],
  ['Zfgr26LWd22Za', '$2b$04$eH8zX.q5Q.j2hO1NkVYJQOM6KxntS/ow3.YzVmFrE4t//CoF4fvne'],
  ['Tg4daC27epFBE', '$2b$04$ahiTdwRXpUG2JLRcIznxc.s1.ydaPGD372bsGs8NqyYjLY1inG5n2'],
  ['xhQPMmwh5ALzW', '$2b$04$nQn78dV0hGHf5wUBe0zOFu8n07ZbWWOKoGasZKRspZxtt.vBRNMIy'],
] as const satisfies { length: typeof MAX_LANES }

/** `onLost` is called when a worker has died and its jobs have been rejected. */
export async function openLanes(threads: number, onLost: (error: Error) => void): Promise<Hasher> {
  // Compiled once: the workers share its machine code.
  const module = new WebAssembly.Module(readFileSync(KERNEL))
  const kernel = fasterKernel(module)
  const knownAnswers = KNOWN_ANSWERS.map(([password, hash]) => toKnownAnswer(password, hash))
  const fastestMs = shareNumbers(MAX_LANES, Number.POSITIVE_INFINITY)
  const pool = Array.from({ length: threads }, (): Thread => {
    const speed = { fastestMs, slowdown: shareNumbers(1, 1) }
    return { worker: null, running: new Map(), speed }
  })
  let isOpen = false
  let nextId = 0

  function startWorker(thread: Thread): Worker {
    const workerData: WorkerData = { module, kernel, speed: thread.speed, knownAnswers }
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

  return {
    name: 'lanes',
    threads,
    roundMs(thread) {
      const [slowdown = 1] = at(pool, thread).speed.slowdown
      return usefulMs(fastestMs).map(ms => slowdown * ms)
    },
    start(index, { password, salt, rounds, totalRounds }) {
      if (!isOpen) throw new Error('the hashing threads have been closed')
      const thread = at(pool, index)
      const { running } = thread
      if (running.size === MAX_LANES) throw new Error('the thread has no free lane')
      const worker = thread.worker ?? startWorker(thread)
      const id = nextId++
      const roundsLeft = shareNumbers(1, totalRounds)
      const key = toKey(password)
      // A copy of the salt: a message with a part of Node's shared buffer would contain all of it.
      const job: Job = {
        ...{ id, key, salt: new Uint8Array(salt) },
        ...{ rounds, totalRounds, roundsLeft },
      }
      const { promise, resolve, reject } = Promise.withResolvers<Buffer | null>()
      running.set(id, { resolve, reject })
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

/** Frees the job's lane; undefined if the job has ended before. */
function end({ worker, running }: Thread, id: number): Running | undefined {
  const job = running.get(id)
  running.delete(id)
  // A worker without a job does not keep the process alive.
  if (running.size === 0) worker?.unref()
  return job
}

/** The times of as few lanes as have enough of the highest throughput. */
export function usefulMs(fastestMs: Iterable<number>): number[] {
  const times = [...fastestMs]
  let leastMs = Number.POSITIVE_INFINITY
  let highest = 0
  for (let i = times.length - 1; i >= 0; i--) {
    // Fewer lanes are never slower. If it looks so, other load has disturbed their time.
    leastMs = Math.min(leastMs, times[i] ?? leastMs)
    times[i] = leastMs
    highest = Math.max(highest, (i + 1) / leastMs)
  }
  return times.slice(0, 1 + times.findIndex((ms, i) => (i + 1) / ms >= ENOUGH * highest))
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
