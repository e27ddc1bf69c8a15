// Limits the number of connections. At the limit, the client with the most connections loses an idle one.

export type ConnectionLimits = { total: number; perClient: number }

type ClientKey = string | symbol

type CountedConnection = {
  close: () => void
  /** Asked only at the limit. A busy connection is not asked again until it is listed or touched. */
  isBusy: () => boolean
}

export type Entry = {
  /** It may be idle now. */
  list: () => void
  /** Lists it as the last one: the least recently used connection of a client is closed first. */
  touch: () => void
  /** Until it is touched, it is closed before the idle connections of every client. */
  closeFirst: () => void
  remove: () => void
}

type Counted = CountedConnection & Pick<Entry, 'remove'> & { unlist: () => void }

type Holder = {
  client: ClientKey
  connections: number
  /** The connections that may be idle; the least recently used comes first. */
  listed: Set<Counted>
}

/** The cost of an operation is bounded by `perClient` and does not grow with the number of clients. */
export function createConnectionLimit({ total, perClient }: ConnectionLimits) {
  const holders = new Map<ClientKey, Holder>()
  /** The holders that may have an idle connection, by the number of all their connections. */
  const bySize = Array.from({ length: perClient + 1 }, () => new Set<Holder>())
  const closedFirst = new Set<Counted>()
  let connections = 0

  function update(holder: Holder, change: () => void): void {
    bySize[holder.connections]?.delete(holder)
    change()
    if (holder.listed.size > 0) bySize[holder.connections]?.add(holder)
    if (holder.connections === 0) holders.delete(holder.client)
  }

  function nextListed(): Counted | null {
    for (const counted of closedFirst) return counted
    for (let size = perClient; size > 0; size--) {
      for (const { listed } of bySize[size] ?? []) for (const counted of listed) return counted
    }
    return null
  }

  /** False if every connection is busy. */
  function closeIdle(): boolean {
    for (let counted = nextListed(); counted; counted = nextListed()) {
      if (!counted.isBusy()) {
        counted.remove()
        counted.close()
        return true
      }
      counted.unlist()
    }
    return false
  }

  return {
    /** Null if the client is at its limit, or if the total is reached and no connection is idle. */
    add(client: ClientKey, connection: CountedConnection): Entry | null {
      const holder = holders.get(client) ?? { client, connections: 0, listed: new Set() }
      if (holder.connections >= perClient || (connections >= total && !closeIdle())) return null
      let isCounted = true
      const drop = () => {
        closedFirst.delete(counted)
        holder.listed.delete(counted)
      }
      const counted: Counted = {
        ...connection,
        unlist: () => update(holder, drop),
        remove() {
          if (!isCounted) return
          isCounted = false
          connections--
          update(holder, () => {
            holder.connections--
            drop()
          })
        },
      }
      const list = () => {
        if (isCounted && !holder.listed.has(counted))
          update(holder, () => holder.listed.add(counted))
      }
      connections++
      holders.set(client, holder)
      update(holder, () => {
        holder.connections++
        holder.listed.add(counted)
      })
      return {
        list,
        touch() {
          closedFirst.delete(counted)
          if (holder.listed.delete(counted)) holder.listed.add(counted)
          else list()
        },
        closeFirst() {
          if (isCounted) closedFirst.add(counted)
        },
        remove: counted.remove,
      }
    },
  }
}
