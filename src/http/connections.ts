// No connection is free: how many, how long, and how much each may ask.
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { Server as TlsServer } from 'node:tls'
import { clientGroup, type Proxies } from './client-address.ts'
import { createPlaces, type Limits, type Place } from './places.ts'

/** Handshakes have places of their own: those that do not finish take none from working clients. */
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
 * A new client always gets in: when all places are taken, an idle connection of the client that holds
 * the most is closed. A connection is idle unless a request that has arrived whole is being answered.
 */
export function limitConnections(
  server: Server,
  proxies: Proxies,
  limits: { connections: Limits; handshakes: Limits } = LIMITS,
): void {
  const places = new WeakMap<Socket, Place>()
  const take = createTaking(proxies, limits.connections)
  const admit = (socket: Socket) => {
    const place = take(socket)
    if (place) places.set(socket, place)
  }
  if (server instanceof TlsServer) afterHandshake(server, proxies, limits.handshakes, admit)
  else server.on('connection', admit)
  // The last resort: closed sockets are counted until the system has let go of them.
  server.maxConnections = 2 * (limits.connections.total + limits.handshakes.total)

  server.on('request', (request: IncomingMessage, response: ServerResponse) => {
    const place = places.get(request.socket)
    if (!place) return
    let isBegun = false
    const begin = () => {
      if (response.closed) return
      isBegun = true
      place.begin()
    }
    place.touch()
    // A body that is slow to arrive is no work that would have to be protected.
    if (hasBody(request)) request.once('end', begin)
    else begin()
    response.once('close', () => {
      if (isBegun) place.end()
    })
  })
}

/** Calls back with each socket whose handshake is finished. */
function afterHandshake(
  server: Server,
  proxies: Proxies,
  limits: Limits,
  onSecure: (socket: Socket) => void,
): void {
  const take = createTaking(proxies, limits)
  /** By the two ends of the connection: the raw and the encrypted socket do not know each other. */
  const handshakes = new Map<string, Place>()
  server.on('connection', (socket: Socket) => {
    const place = take(socket)
    if (!place) return
    const name = nameOf(socket)
    handshakes.set(name, place)
    socket.once('close', () => {
      if (handshakes.get(name) === place) handshakes.delete(name)
    })
  })
  server.on('secureConnection', (socket: Socket) => {
    const name = nameOf(socket)
    handshakes.get(name)?.leave()
    handshakes.delete(name)
    onSecure(socket)
  })
}

/** A place until the socket closes; without one it is closed at once. */
function createTaking(proxies: Proxies, limits: Limits) {
  const places = createPlaces(limits)
  return (socket: Socket): Place | null => {
    // Its close has been told already.
    if (socket.destroyed) return null
    const peer = socket.remoteAddress ?? ''
    // A trusted proxy speaks for many: each of its connections is a client of its own, always at work.
    const isProxy = proxies.isTrusted(peer)
    const client = isProxy ? Symbol(peer) : clientGroup(peer)
    const place = places.take(client, () => socket.destroy())
    if (isProxy) place?.begin()
    if (place) socket.once('close', place.leave)
    else socket.destroy()
    return place
  }
}

function nameOf({ remoteAddress, remotePort, localAddress }: Socket): string {
  return `${remoteAddress} ${remotePort} ${localAddress}`
}

function hasBody({ headers }: IncomingMessage): boolean {
  return headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0
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
