// No connection is free: how many, how long, and how much each may ask.
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { Server as TlsServer } from 'node:tls'
import { clientGroup, type Proxies } from '../request/client-address.ts'
import { createConnectionLimit, type Entry, type Limits } from './connection-limit.ts'

/** Handshakes are counted apart: those that do not finish cost working clients nothing. */
const LIMITS = {
  connections: { total: 4_096, perClient: 256 },
  handshakes: { total: 1_024, perClient: 256 },
}
const MAX_REQUESTS_PER_CONNECTION = 1_000

/**
 * Who stalls is dropped within 15 s, in headers, body or handshake. Node checks in intervals, and a
 * request timeout alone would never end a stalled body: the headers' must be the shorter one.
 */
export const TIMEOUTS = {
  handshakeTimeout: 5_000,
  headersTimeout: 5_000,
  requestTimeout: 10_000,
  keepAliveTimeout: 10_000,
  connectionsCheckingInterval: 1_000,
}

/**
 * A new client always gets in: at the limit, an idle connection of the client that holds the most is
 * closed. A connection is idle unless a request that has arrived whole is being answered.
 */
export function limitConnections(
  server: Server,
  proxies: Proxies,
  limits: { connections: Limits; handshakes: Limits } = LIMITS,
): void {
  const entries = new WeakMap<Socket, Entry>()
  const responses = new WeakMap<Socket, ServerResponse>()
  const count = createCounting(proxies, limits.connections, (socket, callback) => {
    const response = responses.get(socket)
    // A body that is slow to arrive is not work to be protected.
    const isWorking = response !== undefined && !response.closed && response.req.complete
    if (isWorking) response.once('close', callback)
    return isWorking
  })
  const admit = (socket: Socket) => {
    const entry = count(socket)
    if (entry) entries.set(socket, entry)
  }
  if (server instanceof TlsServer) afterHandshake(server, proxies, limits.handshakes, admit)
  else server.on('connection', admit)
  // The last resort: closed sockets are counted until the system has let go of them.
  server.maxConnections = 2 * (limits.connections.total + limits.handshakes.total)

  server.on('request', ({ socket }: IncomingMessage, response: ServerResponse) => {
    responses.set(socket, response)
    entries.get(socket)?.touch()
  })
}

/** Calls back with each socket whose handshake is finished. */
function afterHandshake(
  server: Server,
  proxies: Proxies,
  limits: Limits,
  onSecure: (socket: Socket) => void,
): void {
  const count = createCounting(proxies, limits, () => false)
  /** By the two ends of the connection: the raw and the encrypted socket do not know each other. */
  const handshakes = new Map<string, Entry>()
  server.on('connection', (socket: Socket) => {
    const entry = count(socket)
    if (!entry) return
    const name = nameOf(socket)
    handshakes.set(name, entry)
    socket.once('close', () => {
      if (handshakes.get(name) === entry) handshakes.delete(name)
    })
  })
  server.on('secureConnection', (socket: Socket) => {
    const name = nameOf(socket)
    handshakes.get(name)?.remove()
    handshakes.delete(name)
    onSecure(socket)
  })
}

/** Counts a socket until it closes. One beyond the limit is closed at once. */
function createCounting(
  proxies: Proxies,
  limits: Limits,
  whenIdle: (socket: Socket, callback: () => void) => boolean,
) {
  const limit = createConnectionLimit(limits)
  return (socket: Socket): Entry | null => {
    // Its close has been told already.
    if (socket.destroyed) return null
    const peer = socket.remoteAddress ?? ''
    // A trusted proxy speaks for many: each of its connections is a client of its own, always at work.
    const isProxy = proxies.isTrusted(peer)
    const entry = limit.add(isProxy ? Symbol(peer) : clientGroup(peer), {
      close: () => socket.destroy(),
      whenIdle: callback => isProxy || whenIdle(socket, callback),
    })
    if (entry) socket.once('close', entry.remove)
    else socket.destroy()
    return entry
  }
}

function nameOf({ remoteAddress, remotePort, localAddress }: Socket): string {
  return `${remoteAddress} ${remotePort} ${localAddress}`
}

/** True for the last request that a connection may carry. Node's own limit answers outside the envelope. */
export function createRequestCounter(): (request: IncomingMessage) => boolean {
  const requests = new WeakMap<Socket, number>()
  return ({ socket }) => {
    const count = (requests.get(socket) ?? 0) + 1
    requests.set(socket, count)
    return count >= MAX_REQUESTS_PER_CONNECTION
  }
}
