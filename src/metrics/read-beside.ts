// What a scrape shows of the database. It does not wait for it: a stalled database must not delay a scrape.

/** Returns what was read last, at first `first`. A call starts the next read, `everyMs` after the end of the last one. */
export function readBeside<T>(read: () => Promise<T>, first: T, everyMs = 0): () => T {
  let last = first
  let nextAtMs = 0

  async function readNext(): Promise<void> {
    nextAtMs = Number.POSITIVE_INFINITY
    try {
      last = await read()
    } catch {
      // The store has counted the error.
    } finally {
      nextAtMs = performance.now() + everyMs
    }
  }

  return () => {
    if (performance.now() >= nextAtMs) readNext()
    return last
  }
}
