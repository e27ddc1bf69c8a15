// Limits the number of connections. At a limit, a connection that is not busy is closed: of the client that is at its
// own limit, else of the client with the most connections.

export type ConnectionLimits = { total: number; perClient: number }
export type LimitName = 'client' | 'total'
export type LimitResult = 'closed' | 'refused'

/** Null for a connection of a trusted proxy between requests: it has no limit of its own, and is closed last. */
type Client = string | null

/** `C`: a connection. `isBusy` is asked only at a limit; `close` also closes a new connection that is refused. */
export function createConnectionLimit<C>(
  { total, perClient }: ConnectionLimits,
  isBusy: (connection: C) => boolean,
  close: (connection: C, limit: LimitName, result: LimitResult) => void,
) {
  /** The least recently used connection comes first. */
  const connectionsOf = new Map<Client, Set<C>>()
  const clientOf = new Map<C, Client>()
  const closedFirst = new Set<C>()

  function remove(connection: C): void {
    const client = clientOf.get(connection)
    if (client === undefined) return
    const connections = connectionsOf.get(client)
    clientOf.delete(connection)
    closedFirst.delete(connection)
    connections?.delete(connection)
    if (connections?.size === 0) connectionsOf.delete(client)
  }

  function findIdle(connections: Set<C>): C | undefined {
    for (const connection of connections) if (!isBusy(connection)) return connection
  }

  /** Looking at 4,096 clients takes less time than a TLS handshake. */
  function findIdleOfAll(): C | undefined {
    let idle = findIdle(closedFirst)
    if (idle !== undefined) return idle
    let most = -1
    for (const [client, connections] of connectionsOf) {
      const count = client === null ? 0 : connections.size
      const found = count > most ? findIdle(connections) : undefined
      if (found === undefined) continue
      idle = found
      most = count
    }
    return idle
  }

  /** False if there is none to close. */
  function closeIdle(limit: LimitName, idle: C | undefined): boolean {
    if (idle === undefined) return false
    remove(idle)
    close(idle, limit, 'closed')
    return true
  }

  return {
    /**
     * The connection is used, by default by the same client, and becomes the last one of it to be closed. A new one is
     * refused if every other one is busy. A proxy's, which changes its client, is kept: its request may be complete.
     */
    use(connection: C, client: Client = clientOf.get(connection) ?? null): void {
      const isNew = !clientOf.has(connection)
      remove(connection)
      const own = connectionsOf.get(client) ?? new Set()
      const isFull = client !== null && own.size >= perClient
      if (isFull && !closeIdle('client', findIdle(own)) && isNew) {
        close(connection, 'client', 'refused')
      } else if (clientOf.size >= total && !closeIdle('total', findIdleOfAll())) {
        close(connection, 'total', 'refused')
      } else {
        connectionsOf.set(client, own.add(connection))
        clientOf.set(connection, client)
      }
    },
    /** Until it is used, it is closed before the idle connections of every client. */
    closeFirst(connection: C): void {
      if (clientOf.has(connection)) closedFirst.add(connection)
    },
    remove,
    connections: () => clientOf.keys(),
  }
}
