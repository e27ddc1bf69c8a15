// How many connections there may be. At the limit, the client that holds the most loses an idle one.

export type Limits = { total: number; perClient: number }

export type Client = string | symbol

export type Connection = {
  close: () => void
  /** False if it is idle; else calls back when it is idle again. Asked only at the limit. */
  whenIdle: (callback: () => void) => boolean
}

/** A connection that is counted. */
export type Entry = {
  /** Idle connections are closed in the order of their last use. */
  touch: () => void
  remove: () => void
}

type Holder = {
  client: Client
  connections: number
  /** Of the connections that are not known to be at work; the least recently used comes first. */
  closers: Set<() => boolean>
}

/** What an operation costs is bounded by `perClient`, however many clients there are. */
export function createConnectionLimit({ total, perClient }: Limits) {
  const holders = new Map<Client, Holder>()
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

  /** False if every connection is at work. */
  function closeIdle(): boolean {
    for (let close = nextCloser(); close; close = nextCloser()) if (close()) return true
    return false
  }

  return {
    /** Null if the client holds enough, or if no connection is idle at the limit. */
    add(client: Client, connection: Connection): Entry | null {
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
      const list = () => {
        if (isCounted) update(holder, () => holder.closers.add(closer))
      }
      /** A connection at work is not asked again until it is idle. */
      const closer = () => {
        if (connection.whenIdle(list)) {
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
