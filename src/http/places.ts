// Places for connections. When all are taken, the client that holds the most gives an idle one back.

export type Limits = { total: number; perClient: number }

/** One connection's place. It is idle except between `begin` and `end`. */
export type Place = {
  /** Idle places are given back in the order of their last use. */
  touch: () => void
  begin: () => void
  end: () => void
  leave: () => void
}

export type Client = string | symbol

type Holder = {
  client: Client
  places: number
  /** Closes one idle connection each; the least recently used comes first. */
  idle: Set<() => void>
}

/** Every operation takes a time that is bounded by `perClient`, however many clients there are. */
export function createPlaces({ total, perClient }: Limits) {
  const holders = new Map<Client, Holder>()
  /** The holders that have an idle connection, by the number of all their connections. */
  const bySize = Array.from({ length: perClient + 1 }, () => new Set<Holder>())
  let taken = 0

  function update(holder: Holder, change: () => void): void {
    bySize[holder.places]?.delete(holder)
    change()
    if (holder.idle.size > 0) bySize[holder.places]?.add(holder)
    if (holder.places === 0) holders.delete(holder.client)
  }

  /** False if no connection is idle. */
  function closeIdle(): boolean {
    for (let size = perClient; size > 0; size--) {
      for (const { idle } of bySize[size] ?? []) {
        for (const close of idle) {
          close()
          return true
        }
      }
    }
    return false
  }

  return {
    /** Null if the client holds enough, or if all places are taken and none is idle. */
    take(client: Client, close: () => void): Place | null {
      const holder = holders.get(client) ?? { client, places: 0, idle: new Set() }
      if (holder.places >= perClient || (taken >= total && !closeIdle())) return null
      let isTaken = true
      let requests = 0
      const leave = () => {
        if (!isTaken) return
        isTaken = false
        taken--
        update(holder, () => {
          holder.places--
          holder.idle.delete(giveBack)
        })
      }
      const giveBack = () => {
        leave()
        close()
      }
      taken++
      holders.set(client, holder)
      update(holder, () => {
        holder.places++
        holder.idle.add(giveBack)
      })
      return {
        leave,
        touch() {
          if (holder.idle.delete(giveBack)) holder.idle.add(giveBack)
        },
        begin() {
          requests++
          if (isTaken) update(holder, () => holder.idle.delete(giveBack))
        },
        end() {
          requests--
          if (isTaken && requests === 0) update(holder, () => holder.idle.add(giveBack))
        },
      }
    },
  }
}
