// The limits of connections: how many, and how long they may take.
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { Server as TlsServer } from 'node:tls'
import { clientGroup } from '../../system/client-group.ts'
import type { Proxies } from '../request/client-address.ts'
import { checkFraming } from '../request/framing.ts'
import { type ConnectionLimits, createConnectionLimit } from './connection-limit.ts'
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
  const open = countSockets(proxies, limits.connections, (socket, isProxy) => {
    const response = latestResponse(socket)
    // A slow body does not protect its connection.
    const isAnswering = response?.writableFinished === false && response.req.complete
    return (isProxy || isAnswering) && unsentBytes(socket) === 0
  })
  if (server instanceof TlsServer) afterHandshake(server, proxies, limits.handshakes, open.admit)
  else server.on('connection', open.admit)
  // A last resort, and not exact: Node counts closed sockets until the system has released them.
  server.maxConnections = 2 * (limits.connections.total + limits.handshakes.total)

  server.on('request', (request: IncomingMessage, response: ServerResponse) => {
    const { socket } = request
    responses.set(socket, response)
    open.touch(socket)
    response.once('finish', () => {
      open.touch(socket)
      // The end of a body with ambiguous framing is not known.
      if (request.complete || checkFraming(request)) return
      open.closeFirst(socket)
      discardBody(request, limits.discarding)
    })
  })
  closeUnread(server, open.connections, limits.reading)
}

/** Calls `onSecure` with each socket that has finished its handshake. */
function afterHandshake(
  server: Server,
  proxies: Proxies,
  limits: ConnectionLimits,
  onSecure: (socket: Socket) => void,
): void {
  const handshakes = countSockets(proxies, limits, (_socket, isProxy) => isProxy)
  /** By the addresses of the connection, because Node does not link the raw and the TLS socket. */
  const rawSockets = new Map<string, Socket>()
  server.on('connection', (raw: Socket) => {
    handshakes.admit(raw)
    if (raw.destroyed) return
    const name = nameOf(raw)
    rawSockets.set(name, raw)
    raw.once('close', () => {
      if (rawSockets.get(name) === raw) rawSockets.delete(name)
    })
  })
  server.on('secureConnection', (socket: Socket) => {
    const raw = rawSockets.get(nameOf(socket))
    if (raw) handshakes.remove(raw)
    onSecure(socket)
  })
}

/** Counts each socket that is admitted, until it closes. One beyond the limit is closed at once. */
function countSockets(
  proxies: Proxies,
  limits: ConnectionLimits,
  isBusy: (socket: Socket, isProxy: boolean) => boolean,
) {
  const limit = createConnectionLimit<Socket>(
    limits,
    (socket, client) => isBusy(socket, typeof client === 'symbol'),
    closeConnection,
  )
  const admit = (socket: Socket) => {
    // Its `close` event has been emitted already.
    if (socket.destroyed) return
    const peer = socket.remoteAddress ?? ''
    const client = proxies.isTrusted(peer) ? Symbol(peer) : clientGroup(peer)
    if (limit.add(socket, client)) socket.once('close', () => limit.remove(socket))
    else socket.destroy()
  }
  return { ...limit, admit }
}

function nameOf({ remoteAddress, remotePort, localAddress }: Socket): string {
  return `${remoteAddress} ${remotePort} ${localAddress}`
}
