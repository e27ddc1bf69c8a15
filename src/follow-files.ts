// What files hold, loaded again when one of them changes or when asked.
import { type StatsListener, unwatchFile, watchFile } from 'node:fs'

/** Well within the time that a new generation of keys is published before it signs. */
const POLL_EVERY_MS = 2_000
/** A certificate and its key are two files, and the second is often written a moment later. */
const SETTLE_MS = 100

export type Followed<T> = {
  current: () => T
  /** Loads again at once, whether or not a file has changed. */
  reload: () => Promise<void>
  close: () => void
}

/**
 * Polls, because that also notices a symbolic link that now leads elsewhere, as certbot and
 * Kubernetes replace files. What cannot be loaded is reported, and the value stays as it was.
 */
export async function followFiles<T>(
  paths: readonly string[],
  load: () => Promise<T>,
  onReload: (error: Error | null) => void,
): Promise<Followed<T>> {
  let value: T
  let settling: NodeJS.Timeout | undefined
  const listener: StatsListener = (now, before) => {
    // Not the time of the content alone: a file may have become readable.
    if (now.ctimeMs === before.ctimeMs && now.ino === before.ino) return
    clearTimeout(settling)
    settling = setTimeout(reload, SETTLE_MS).unref()
  }
  function close(): void {
    clearTimeout(settling)
    for (const path of paths) unwatchFile(path, listener)
  }
  // Before the first reading, so that no change falls in between.
  for (const path of paths)
    watchFile(path, { interval: POLL_EVERY_MS, persistent: false }, listener)

  // One after the other: an older content must not replace a newer one.
  let lastLoad: Promise<void> = load().then(loaded => {
    value = loaded
  })
  function reload(): Promise<void> {
    lastLoad = lastLoad
      .then(load)
      .then(loaded => {
        value = loaded
        onReload(null)
      })
      .catch(error => onReload(error instanceof Error ? error : new Error(String(error))))
    return lastLoad
  }
  try {
    await lastLoad
  } catch (error) {
    close()
    throw error
  }
  return { current: () => value, reload, close }
}
