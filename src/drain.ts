// Ends a service without cutting off what it is doing.
import type { Server, Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Worker } from 'node:worker_threads'
import type { FastifyInstance } from 'fastify'

/** Tracks operations that must end before the store closes, even if their callers have hung up. */
export function createWork() {
  const running = new Set<Promise<unknown>>()
  async function allDone() {
    while (running.size > 0) await Promise.allSettled(running)
  }
  return {
    run<T>(operation: () => Promise<T>): Promise<T> {
      const result = operation()
      running.add(result)
      const forget = () => running.delete(result)
      result.then(forget, forget)
      return result
    },
    /** Waits for all operations, up to the timeout. Returns how many have not ended. */
    async finish(timeoutMs: number): Promise<number> {
      await Promise.race([allDone(), sleep(timeoutMs, undefined, { ref: false })])
      return running.size
    },
  }
}

/** Includes connections in their handshake or without a request, which Node's own list leaves out. */
export function trackConnections(server: Server): Set<Socket> {
  const connections = new Set<Socket>()
  server.on('connection', socket => {
    connections.add(socket)
    socket.once('close', () => connections.delete(socket))
  })
  return connections
}

/** Lets connections finish their answers and close; destroys those that are left after the timeout. */
export async function closeServer(
  app: FastifyInstance,
  connections: Set<Socket>,
  timeoutMs: number,
): Promise<void> {
  const closingIdle = setInterval(() => app.server.closeIdleConnections(), 50)
  const cuttingOff = setTimeout(() => {
    for (const connection of connections) connection.destroy()
  }, timeoutMs)
  await app.close()
  clearInterval(closingIdle)
  clearTimeout(cuttingOff)
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
export function endThreads(threads: Set<Worker>, timeoutMs: number): Promise<boolean> {
  const ending = [...threads].map(thread => {
    // Otherwise its end would be reported as a fault.
    thread.removeAllListeners('exit')
    return thread.terminate()
  })
  return Promise.race([Promise.all(ending).then(() => true), sleep(timeoutMs, false)])
}
