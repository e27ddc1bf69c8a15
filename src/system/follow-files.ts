// Loads a value from files, and again when one of them changes or on request.
import { type StatsListener, unwatchFile, watchFile } from 'node:fs'

/** So long after a key was removed from the file, or a certificate replaced, the old one may be used. */
const POLL_EVERY_MS = 2_000
/** Waits after a change: a certificate and its key are two files, often written one after the other. */
const SETTLE_MS = 100

export type Followed<T> = {
  current: () => T
  /** Loads again at once, whether or not a file has changed. */
  reload: () => Promise<void>
  close: () => void
}

/**
 * Polls, because polling also notices a symbolic link with a new target, which is how certbot and Kubernetes
 * replace files. A failure to load is reported, and the old value stays.
 */
export async function followFiles<T>(
  paths: readonly string[],
  load: () => Promise<T>,
  onReload: (error: Error | null) => void,
): Promise<Followed<T>> {
  let value: T
  let settling: NodeJS.Timeout | undefined
  const listener: StatsListener = (now, before) => {
    // ctime, because mtime stays the same if only the owner or mode changes.
    if (now.ctimeMs === before.ctimeMs && now.ino === before.ino) return
    clearTimeout(settling)
    settling = setTimeout(reload, SETTLE_MS).unref()
  }
  function close(): void {
    clearTimeout(settling)
    for (const path of paths) unwatchFile(path, listener)
  }
  // Started before the first load, so that no change is missed.
  for (const path of paths)
    watchFile(path, { interval: POLL_EVERY_MS, persistent: false }, listener)

  // Loads run one after the other, so that older content cannot replace newer content.
  const loadNow = async () => {
    value = await load()
  }
  let lastLoad = loadNow()
  function reload(): Promise<void> {
    lastLoad = lastLoad
      .then(loadNow)
      .then(() => onReload(null))
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
