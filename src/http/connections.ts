// No connection is free: how many, how long, and how much each may ask.
import type { IncomingMessage, Server } from 'node:http'
import type { Socket } from 'node:net'
import { clientGroup, type Proxies } from './client-address.ts'

const MAX_CONNECTIONS = 4_096
const MAX_CONNECTIONS_PER_CLIENT = 256
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

export function limitConnections(server: Server, proxies: Proxies): void {
  server.maxConnections = MAX_CONNECTIONS
  const perClient = new Map<string, number>()
  server.on('connection', (socket: Socket) => {
    const peer = socket.remoteAddress ?? ''
    if (proxies.isTrusted(peer)) return
    const client = clientGroup(peer)
    const connections = (perClient.get(client) ?? 0) + 1
    if (connections > MAX_CONNECTIONS_PER_CLIENT) return socket.destroy()
    perClient.set(client, connections)
    socket.once('close', () => {
      const left = (perClient.get(client) ?? 1) - 1
      if (left > 0) perClient.set(client, left)
      else perClient.delete(client)
    })
  })
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
