// Removes expired rows once a minute, in batches.
import { setTimeout as sleep } from 'node:timers/promises'
import type { Config } from '../config/config.ts'
import type { Log } from '../log/log.ts'
import type { Parts } from './open.ts'

const PURGE_EVERY_MS = 60_000
/** Between two batches, which leaves the database to logins. */
const PURGE_PAUSE_MS = 100

export function startPurging(
  { auditDays }: Config,
  { store, clusterClock, machineClock }: Parts,
  log: Log,
) {
  // On the machine's clock, like the time of a scrape.
  let purgedAt = machineClock()
  let isPurging = false
  let isClosed = false

  /** The end of the service does not wait for it: each batch is a transaction, so the database may close meanwhile. */
  async function purge(): Promise<void> {
    if (isPurging) return
    isPurging = true
    try {
      while (!isClosed) {
        const purged = await store.maintenance.purge(clusterClock.now(), auditDays)
        if (!purged || purged.isDone) break
        await sleep(PURGE_PAUSE_MS)
      }
      purgedAt = machineClock()
    } catch (error) {
      if (!isClosed) log.error({ event: 'purge.failed', err: error })
    } finally {
      isPurging = false
    }
  }
  const purging = setInterval(purge, PURGE_EVERY_MS).unref()
  return {
    purgedAt: () => purgedAt,
    close() {
      isClosed = true
      clearInterval(purging)
    },
  }
}
