// What must come to its end before the process does.
import type { Server, Socket } from 'node:net'
import { setImmediate, setTimeout as sleep } from 'node:timers/promises'
import type { FastifyInstance } from 'fastify'

/** What must be done before the store closes, whether or not a caller still waits for it. */
export function createWork() {
  const running = new Set<Promise<unknown>>()
  async function allDone() {
    while (running.size > 0) {
      await Promise.allSettled(running)
      // An answer may start more work, as a new hash of the password.
      await setImmediate()
    }
  }
  return {
    run<T>(operation: () => Promise<T>): Promise<T> {
      const result = operation()
      running.add(result)
      const forget = () => running.delete(result)
      result.then(forget, forget)
      return result
    },
    /** Waits for all of it, but no longer than this; returns how much is left. */
    async finish(timeoutMs: number): Promise<number> {
      await Promise.race([allDone(), sleep(timeoutMs, undefined, { ref: false })])
      return running.size
    },
  }
}

/** Also those that have not got as far as a request, or a handshake: the server does not know them. */
export function trackConnections(server: Server): Set<Socket> {
  const connections = new Set<Socket>()
  server.on('connection', socket => {
    connections.add(socket)
    socket.once('close', () => connections.delete(socket))
  })
  return connections
}

/** Lets answers be sent and connections close by themselves, but no longer than this. */
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
