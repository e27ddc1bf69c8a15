// The limits of connections: how many, and how long they may take.
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { Server as TlsServer } from 'node:tls'
import { clientGroup } from '../../system/client-group.ts'
import { clientAddress, type Proxies } from '../request/client-address.ts'
import { checkFraming } from '../request/framing.ts'
import {
  type ConnectionLimits,
  createConnectionLimit,
  type LimitName,
  type LimitResult,
} from './connection-limit.ts'
import { closeConnection, closeUnread, unsentBytes } from './unread-answers.ts'
import { discardBody } from './unread-bodies.ts'

const LIMITS = {
  connections: { total: 4_096, perClient: 256 },
  /** Unfinished handshakes must not use up the room for requests. At their limit, the oldest of the client with most is closed. */
  handshakes: { total: 1_024, perClient: 1_024 },
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

/** A connection that a limit has closed, or a new one that it has refused. `ip`: the client that lost it. */
export type LimitedConnection = { ip: string; limit: LimitName | 'handshakes'; result: LimitResult }

/**
 * A new client can connect unless every connection is busy: at a limit, an idle one is closed. A connection is busy only
 * while a request that has arrived completely is being answered, and the answers before it are read.
 */
export function limitConnections(
  server: Server,
  proxies: Proxies,
  given: Partial<typeof LIMITS> = {},
  onLimited: (limited: LimitedConnection) => void = () => {},
): void {
  const limits = { ...LIMITS, ...given }
  const isBusy = (socket: Socket) => {
    const response = latestResponse(socket)
    const isAnswering = response?.writableFinished === false && response.req.complete
    return isAnswering && unsentBytes(socket) === 0
  }
  const open = countSockets(proxies, limits.connections, isBusy, onLimited)
  if (server instanceof TlsServer) {
    const handshakes = countSockets(
      proxies,
      limits.handshakes,
      () => false,
      limited => onLimited({ ...limited, limit: 'handshakes' }),
    )
    afterHandshake(server, handshakes, open.admit)
  } else server.on('connection', open.admit)
  // A last resort, and not exact: Node counts closed sockets until the system has released them.
  server.maxConnections = 2 * (limits.connections.total + limits.handshakes.total)

  server.on('request', (request: IncomingMessage, response: ServerResponse) => {
    const { socket } = request
    responses.set(socket, response)
    open.use(socket)
    response.once('finish', () => {
      open.use(socket)
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
  server: TlsServer,
  handshakes: ReturnType<typeof countSockets>,
  onSecure: (socket: Socket) => void,
): void {
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

/** Counts each socket that is admitted, until it closes. */
function countSockets(
  proxies: Proxies,
  limits: ConnectionLimits,
  isBusy: (socket: Socket) => boolean,
  onLimited: (limited: LimitedConnection) => void,
) {
  const ofProxies = new WeakSet<Socket>()
  /** The client of the request in progress, or of the connection. Null for a trusted proxy between requests. */
  const addressOf = (socket: Socket) => {
    const response = latestResponse(socket)
    const isOver = !response || (response.writableFinished && response.req.complete)
    const forwardedFor = isOver ? undefined : response.req.headers['x-forwarded-for']
    return clientAddress(socket.remoteAddress ?? '', forwardedFor?.toString(), proxies)
  }
  const limit = createConnectionLimit<Socket>(limits, isBusy, (socket, limit, result) => {
    const ip = addressOf(socket) ?? socket.remoteAddress ?? ''
    closeConnection(socket)
    onLimited({ ip, limit, result })
  })
  const groupOf = (socket: Socket) => {
    const address = addressOf(socket)
    return address === null ? null : clientGroup(address)
  }
  return {
    ...limit,
    admit(socket: Socket): void {
      // Its `close` event has been emitted already.
      if (socket.destroyed) return
      const group = groupOf(socket)
      if (group === null) ofProxies.add(socket)
      socket.once('close', () => limit.remove(socket))
      limit.use(socket, group)
    },
    use(socket: Socket): void {
      if (socket.destroyed) return
      // A direct client stays the same, and an IPv6 address takes time to parse.
      limit.use(socket, ofProxies.has(socket) ? groupOf(socket) : undefined)
    },
  }
}

function nameOf({ remoteAddress, remotePort, localAddress }: Socket): string {
  return `${remoteAddress} ${remotePort} ${localAddress}`
}
