// Counts the hashes of the last seconds by name. Without this memory, an attempt that is repeated at once
// after every answer would always have as good a claim as one that comes for the first time.

export const REMEMBERED_MS = 5_000

export type RecentHashes = {
  /** Counts one hash under each of these names. */
  add(names: string[]): void
  countOf(name: string): number
}

/** It remembers no more than the hashes that the machine computes within REMEMBERED_MS. */
export function createRecentHashes(nowMs: () => number): RecentHashes {
  /** The oldest hash comes first. Those before `first` are forgotten. */
  let hashes: { names: string[]; untilMs: number }[] = []
  let first = 0
  const counts = new Map<string, number>()

  function change(names: string[], by: 1 | -1): void {
    for (const name of names) {
      const count = (counts.get(name) ?? 0) + by
      if (count > 0) counts.set(name, count)
      else counts.delete(name)
    }
  }

  function forget(): void {
    for (
      let oldest = hashes[first];
      oldest && oldest.untilMs <= nowMs();
      oldest = hashes[++first]
    ) {
      change(oldest.names, -1)
    }
    if (first * 2 <= hashes.length) return
    hashes = hashes.slice(first)
    first = 0
  }

  return {
    add(names) {
      forget()
      hashes.push({ names, untilMs: nowMs() + REMEMBERED_MS })
      change(names, 1)
    },
    countOf(name) {
      forget()
      return counts.get(name) ?? 0
    },
  }
}
