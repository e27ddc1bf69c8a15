// Closes connections whose clients do not read their answers.
import type { Server } from 'node:http'
import { Socket } from 'node:net'
import { setImmediate } from 'node:timers/promises'

/** A client must take some bytes within `someMs`, and all answers that wait for it within `allMs`. */
type ReadingLimits = { someMs: number; allMs: number }

const CHECK_MS = 1_000

/** Node has no event for a write without progress, so all connections are checked at intervals. */
export function closeUnread(
  server: Server,
  connections: () => Iterable<Socket>,
  { someMs, allMs }: ReadingLimits,
): void {
  type Wait = { bytes: number; sinceBytesMs: number; sinceStartMs: number }
  let waits = new Map<Socket, Wait>()
  const timer = setInterval(async () => {
    const previous = waits
    const late: Socket[] = []
    waits = new Map()
    for (const socket of connections()) {
      const bytes = unsentBytes(socket)
      if (bytes === 0) continue
      const last = previous.get(socket)
      const sinceBytesMs = last?.bytes === bytes ? last.sinceBytesMs + CHECK_MS : 0
      const sinceStartMs = last ? last.sinceStartMs + CHECK_MS : 0
      waits.set(socket, { bytes, sinceBytesMs, sinceStartMs })
      if (sinceBytesMs >= someMs || sinceStartMs >= allMs) late.push(socket)
    }
    for (const socket of late) {
      // Serves others in between: Node aborts each request that the connection has pipelined, which takes time.
      await setImmediate()
      closeConnection(socket)
    }
  }, CHECK_MS).unref()
  server.once('close', () => clearInterval(timer))
}

/** With a reset if bytes are unsent: the system would otherwise keep them for minutes. */
export function closeConnection(socket: Socket): void {
  const raw = rawSocket(socket)
  // Node cannot reset a TLS socket.
  if (unsentBytes(socket) > 0 && !('encrypted' in raw)) raw.resetAndDestroy()
  socket.destroy()
}

/** What the system does not take because its buffers are full: the client does not read. */
export function unsentBytes(socket: Socket): number {
  if (socket.writableLength === 0) return 0
  // Undocumented. Without it, only the end of a whole write counts as progress.
  const { writeQueueSize } = Object(Reflect.get(rawSocket(socket), '_handle'))
  return writeQueueSize ?? socket.writableLength
}

/** Over TLS, the socket below. `_parent` is undocumented; without it, this is the TLS socket. */
function rawSocket(socket: Socket): Socket {
  const parent: unknown = Reflect.get(socket, '_parent')
  return parent instanceof Socket ? parent : socket
}
