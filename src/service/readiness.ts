// Whether the service can take logins: what /readyz answers, and what the metrics show.
import type { Log } from '../log/log.ts'

/** For this long, calls share the last outcome: more frequent probes cost no more writes. */
const SHARED_MS = 1_000

/** Runs one check at a time and at most one per second, for any number of calls. */
export function createReadiness(
  runCheck: () => Promise<void>,
  isStopping: () => boolean,
  log: Log,
) {
  let shared: Promise<void> | null = null
  let isFailing = false

  async function startCheck(): Promise<void> {
    try {
      await runCheck()
      if (isFailing) log.info({ event: 'service.ready_again' })
      isFailing = false
    } catch (error) {
      isFailing = true
      log.warn({ event: 'service.not_ready', err: error })
      throw error
    } finally {
      setTimeout(() => {
        shared = null
      }, SHARED_MS).unref()
    }
  }

  /** Rejects while the service cannot serve. */
  async function check(): Promise<void> {
    if (isStopping()) throw new Error('stopping')
    shared ??= startCheck()
    await shared
  }

  return {
    check,
    /** The outcome of the last check. Starts the next one and does not wait for it: the disk may stall. */
    wasReady(): boolean {
      check().catch(() => {})
      return !isFailing && !isStopping()
    },
  }
}
