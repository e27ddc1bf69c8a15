// Limits the number of connections. At the limit, the client with the most connections loses an idle one.

export type ConnectionLimits = { total: number; perClient: number }

type ClientKey = string | symbol

type CountedConnection = {
  close: () => void
  /** False if it is idle; otherwise calls back once it is idle again. Called only at the limit. */
  isBusy: (onIdle: () => void) => boolean
}

export type Entry = {
  /** Marks it as used: idle connections are closed in the order of their last use. */
  touch: () => void
  remove: () => void
}

type Holder = {
  client: ClientKey
  connections: number
  /** These close the connections that may be idle; the least recently used comes first. */
  closers: Set<() => boolean>
}

/** The cost of an operation is bounded by `perClient` and does not grow with the number of clients. */
export function createConnectionLimit({ total, perClient }: ConnectionLimits) {
  const holders = new Map<ClientKey, Holder>()
  /** The holders that may have an idle connection, by the number of all their connections. */
  const bySize = Array.from({ length: perClient + 1 }, () => new Set<Holder>())
  let connections = 0

  function update(holder: Holder, change: () => void): void {
    bySize[holder.connections]?.delete(holder)
    change()
    if (holder.closers.size > 0) bySize[holder.connections]?.add(holder)
    if (holder.connections === 0) holders.delete(holder.client)
  }

  function nextCloser(): (() => boolean) | null {
    for (let size = perClient; size > 0; size--) {
      for (const { closers } of bySize[size] ?? []) for (const closer of closers) return closer
    }
    return null
  }

  /** False if every connection is busy. */
  function closeIdle(): boolean {
    for (let close = nextCloser(); close; close = nextCloser()) if (close()) return true
    return false
  }

  return {
    /** Null if the client is at its limit, or if the total is reached and no connection is idle. */
    add(client: ClientKey, connection: CountedConnection): Entry | null {
      const holder = holders.get(client) ?? { client, connections: 0, closers: new Set() }
      if (holder.connections >= perClient || (connections >= total && !closeIdle())) return null
      let isCounted = true
      const remove = () => {
        if (!isCounted) return
        isCounted = false
        connections--
        update(holder, () => {
          holder.connections--
          holder.closers.delete(closer)
        })
      }
      const relist = () => {
        if (isCounted) update(holder, () => holder.closers.add(closer))
      }
      /** Skips a busy connection until it is idle again. */
      const closer = () => {
        if (connection.isBusy(relist)) {
          update(holder, () => holder.closers.delete(closer))
          return false
        }
        remove()
        connection.close()
        return true
      }
      connections++
      holders.set(client, holder)
      update(holder, () => {
        holder.connections++
        holder.closers.add(closer)
      })
      return {
        remove,
        touch() {
          if (holder.closers.delete(closer)) holder.closers.add(closer)
        },
      }
    },
  }
}
