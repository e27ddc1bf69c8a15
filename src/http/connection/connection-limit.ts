// Limits the number of connections. At the limit, the client with the most connections loses an idle one.

export type ConnectionLimits = { total: number; perClient: number }

/** A symbol stands for one connection of a trusted proxy, which serves many clients. */
type ClientKey = string | symbol
/** The least recently used connection comes first. */
type Holder<C> = { client: ClientKey; connections: Set<C> }

/** `C`: a connection. `isBusy` is asked only at the limit; a busy connection is not closed. */
export function createConnectionLimit<C>(
  { total, perClient }: ConnectionLimits,
  isBusy: (connection: C, client: ClientKey) => boolean,
  close: (connection: C) => void,
) {
  const holders = new Map<ClientKey, Holder<C>>()
  const holderOf = new Map<C, Holder<C>>()
  const closedFirst = new Set<C>()

  function remove(connection: C): void {
    const holder = holderOf.get(connection)
    holderOf.delete(connection)
    closedFirst.delete(connection)
    holder?.connections.delete(connection)
    if (holder?.connections.size === 0) holders.delete(holder.client)
  }

  /** Null if every connection is busy. Looking at 4,096 clients takes less time than a TLS handshake. */
  function findIdle(): C | null {
    for (const connection of closedFirst) {
      if (!isBusy(connection, holderOf.get(connection)?.client ?? '')) return connection
    }
    let idle: C | null = null
    let most = 0
    for (const { client, connections } of holders.values()) {
      if (connections.size <= most) continue
      for (const connection of connections) {
        if (isBusy(connection, client)) continue
        idle = connection
        most = connections.size
        break
      }
    }
    return idle
  }

  function closeIdle(): boolean {
    const idle = findIdle()
    if (idle === null) return false
    remove(idle)
    close(idle)
    return true
  }

  return {
    /** False if the client is at its limit, or if the total is reached and no connection is idle. */
    add(connection: C, client: ClientKey): boolean {
      const holder = holders.get(client) ?? { client, connections: new Set() }
      const isFull = holder.connections.size >= perClient
      if (isFull || (holderOf.size >= total && !closeIdle())) return false
      holders.set(client, holder)
      holder.connections.add(connection)
      holderOf.set(connection, holder)
      return true
    },
    /** The connection is used: it becomes the last one of its client to be closed. */
    touch(connection: C): void {
      const connections = holderOf.get(connection)?.connections
      closedFirst.delete(connection)
      if (connections?.delete(connection)) connections.add(connection)
    },
    /** Until it is touched, it is closed before the idle connections of every client. */
    closeFirst(connection: C): void {
      if (holderOf.has(connection)) closedFirst.add(connection)
    },
    remove,
    connections: () => holderOf.keys(),
  }
}
