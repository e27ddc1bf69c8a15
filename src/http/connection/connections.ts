// The limits of connections: how many, and how long they may take.
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { Server as TlsServer } from 'node:tls'
import { clientGroup } from '../../system/client-group.ts'
import type { Proxies } from '../request/client-address.ts'
import { checkFraming } from '../request/framing.ts'
import { type ConnectionLimits, createConnectionLimit, type Entry } from './connection-limit.ts'
import { closeConnection, closeUnread, unsentBytes } from './unread-answers.ts'
import { discardBody } from './unread-bodies.ts'

const LIMITS = {
  connections: { total: 4_096, perClient: 256 },
  /** Handshakes have a limit of their own: unfinished ones must not use up the room for requests. */
  handshakes: { total: 1_024, perClient: 256 },
  reading: { someMs: 15_000, allMs: 60_000 },
  discarding: { bytes: 2 * 1024 * 1024, ms: 2_000 },
}

const responses = new WeakMap<Socket, ServerResponse>()

/** The response to the latest request of a connection; undefined before the first request. */
export function latestResponse(socket: Socket): ServerResponse | undefined {
  return responses.get(socket)
}

/**
 * A connection that stalls in its handshake, headers or body is closed within 15 s. Node checks at
 * intervals, and enforces `requestTimeout` on a stalled body only if `headersTimeout` is shorter.
 */
export const TIMEOUTS = {
  handshakeTimeout: 5_000,
  headersTimeout: 5_000,
  requestTimeout: 10_000,
  keepAliveTimeout: 10_000,
  connectionsCheckingInterval: 1_000,
}

/**
 * A new client can connect unless every connection is busy: at the limit, the client with the most connections loses an
 * idle one. A connection is busy only while a request that has arrived completely is being answered, and the answers
 * before it are read.
 */
export function limitConnections(
  server: Server,
  proxies: Proxies,
  given: Partial<typeof LIMITS> = {},
): void {
  const limits = { ...LIMITS, ...given }
  const entries = new Map<Socket, Entry>()
  const count = createCounting(proxies, limits.connections, (socket, isProxy) => {
    const response = latestResponse(socket)
    // A slow body does not protect its connection.
    const isAnswering = response?.writableFinished === false && response.req.complete
    return (isProxy || isAnswering) && unsentBytes(socket) === 0
  })
  const admit = (socket: Socket) => {
    const entry = count(socket)
    if (!entry) return
    entries.set(socket, entry)
    socket.once('close', () => entries.delete(socket))
  }
  if (server instanceof TlsServer) afterHandshake(server, proxies, limits.handshakes, admit)
  else server.on('connection', admit)
  // A last resort, and not exact: Node counts closed sockets until the system has released them.
  server.maxConnections = 2 * (limits.connections.total + limits.handshakes.total)

  server.on('request', (request: IncomingMessage, response: ServerResponse) => {
    const { socket } = request
    const entry = entries.get(socket)
    responses.set(socket, response)
    entry?.touch()
    response.once('finish', () => {
      entry?.touch()
      // The end of a body with ambiguous framing is not known.
      if (request.complete || checkFraming(request)) return
      entry?.closeFirst()
      discardBody(request, limits.discarding)
    })
  })
  closeUnread(server, entries, limits.reading)
}

/** Calls `onSecure` with each socket that has finished its handshake. */
function afterHandshake(
  server: Server,
  proxies: Proxies,
  limits: ConnectionLimits,
  onSecure: (socket: Socket) => void,
): void {
  const count = createCounting(proxies, limits, (_socket, isProxy) => isProxy)
  /** Keyed by the addresses of the connection, because Node does not link the raw and the TLS socket. */
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
  limits: ConnectionLimits,
  isBusy: (socket: Socket, isProxy: boolean) => boolean,
) {
  const limit = createConnectionLimit(limits)
  return (socket: Socket): Entry | null => {
    // Its `close` event has been emitted already.
    if (socket.destroyed) return null
    const peer = socket.remoteAddress ?? ''
    // A trusted proxy serves many clients, so each of its connections counts as a client of its own.
    const isProxy = proxies.isTrusted(peer)
    const entry = limit.add(isProxy ? Symbol(peer) : clientGroup(peer), {
      close: () => closeConnection(socket),
      isBusy: () => isBusy(socket, isProxy),
    })
    if (entry) socket.once('close', entry.remove)
    else socket.destroy()
    return entry
  }
}

function nameOf({ remoteAddress, remotePort, localAddress }: Socket): string {
  return `${remoteAddress} ${remotePort} ${localAddress}`
}
