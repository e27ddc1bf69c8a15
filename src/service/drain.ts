// Ends a service without cutting off what it is doing.
import type { Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Worker } from 'node:worker_threads'
import type { FastifyInstance } from 'fastify'
import type { Log } from '../log/log.ts'
import { isOnTerminal } from './signals.ts'

/** Time for load balancers to notice that the service is not ready, before it refuses requests. */
const DEFAULT_DRAIN_DELAY_MS = 2_000
/** Time for operations to end after the drain delay: the longest LOGIN_TIME_MS. */
const DRAIN_TIMEOUT_MS = 5_000
/** Time for connections to close after that, and for operations that began meanwhile. */
const CLOSE_TIMEOUT_MS = 500
/** All this and the closing of the store may take so long. */
const STOP_TIMEOUT_MS = 6_000
/** Threads have so long to end after that. With the default delay it is 9 s in all; supervisors wait for 10 s. */
const THREADS_TIMEOUT_MS = 1_000

export type Drain = ReturnType<typeof createDrain>

/** The end of the service: it is not ready, then it refuses requests, then it closes what it has opened. */
export function createDrain(configuredDelayMs: number | null, log: Log) {
  // Nothing balances the load of a service on a terminal. It is asked now, because the terminal may close.
  const delayMs = configuredDelayMs ?? (isOnTerminal() ? 0 : DEFAULT_DRAIN_DELAY_MS)
  /** Operations that must end before the store closes, even if their callers have hung up. */
  const running = new Set<Promise<unknown>>()
  let isStopping = false
  let isRefusing = false
  let stopped: Promise<void> | null = null

  async function finishWork(timeoutMs: number): Promise<void> {
    const allDone = async () => {
      while (running.size > 0) await Promise.allSettled(running)
    }
    await Promise.race([allDone(), sleep(timeoutMs, undefined, { ref: false })])
  }
  async function finish(close: () => Promise<void>): Promise<void> {
    await finishWork(DRAIN_TIMEOUT_MS)
    if (running.size > 0) log.error({ event: 'service.cut_off', unfinished: running.size })
    await close()
  }
  async function drain(reason: string, close: () => Promise<void>): Promise<void> {
    log.info({ event: 'service.stopping', reason, delayMs })
    isStopping = true
    if (delayMs > 0) await sleep(delayMs)
    isRefusing = true
    await Promise.race([finish(close), sleep(STOP_TIMEOUT_MS, undefined, { ref: false })])
    log.info({ event: 'service.stopped' })
  }
  return {
    /** True once the service has been asked to end. */
    isStopping: () => isStopping,
    /** True once the drain delay is over. */
    isRefusing: () => isRefusing,
    track<T>(operation: () => Promise<T>): Promise<T> {
      const result = operation()
      running.add(result)
      const forget = () => running.delete(result)
      result.then(forget, forget)
      return result
    },
    /** Operations that began while connections closed still end before the store closes. */
    finishLateWork: () => finishWork(CLOSE_TIMEOUT_MS),
    /** A second call waits for the first one. */
    stop(reason: string, close: () => Promise<void>): Promise<void> {
      stopped ??= drain(reason, close)
      return stopped
    },
  }
}

/**
 * Returns what closes the server: connections finish their answers, and those that are left after the timeout are
 * destroyed. Includes connections in their handshake or without a request, which Node's own list leaves out.
 */
export function prepareClose(app: FastifyInstance): () => Promise<void> {
  const connections = new Set<Socket>()
  app.server.on('connection', (socket: Socket) => {
    connections.add(socket)
    socket.once('close', () => connections.delete(socket))
  })
  return async () => {
    const closingIdle = setInterval(() => app.server.closeIdleConnections(), 50)
    const cuttingOff = setTimeout(() => {
      for (const connection of connections) connection.destroy()
    }, CLOSE_TIMEOUT_MS)
    await app.close()
    clearInterval(closingIdle)
    clearTimeout(cuttingOff)
  }
}

/** The threads that are running, from now on. */
export function trackThreads(): Set<Worker> {
  const threads = new Set<Worker>()
  process.on('worker', thread => {
    threads.add(thread)
    thread.once('exit', () => threads.delete(thread))
  })
  return threads
}

/** False if a thread does not end, because the disk blocks it. The exit of the process would wait for it. */
export function endThreads(threads: Set<Worker>): Promise<boolean> {
  const ending = [...threads].map(thread => {
    // Otherwise its end would be reported as a fault.
    thread.removeAllListeners('exit')
    return thread.terminate()
  })
  return Promise.race([Promise.all(ending).then(() => true), sleep(THREADS_TIMEOUT_MS, false)])
}
