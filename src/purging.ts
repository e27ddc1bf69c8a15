// Removes expired rows once a minute, in batches.
import { setTimeout as sleep } from 'node:timers/promises'
import type { Config } from './config/config.ts'
import type { MaintenanceStore } from './domain/maintenance.ts'
import type { Drain } from './drain.ts'
import type { Log } from './log/log.ts'
import type { Parts } from './open.ts'

const PURGE_EVERY_MS = 60_000
/** Between two batches, which leaves the database to logins. */
const PURGE_PAUSE_MS = 100

export function startPurging(
  { auditDays }: Config,
  { store, clusterClock, machineClock }: Parts,
  { isStopping }: Drain,
  log: Log,
) {
  // On the machine's clock, like the time of a scrape.
  let purgedAt = machineClock()
  let isPurging = false
  const purging = setInterval(() => {
    if (isPurging) return
    isPurging = true
    // The end does not wait for it: its batches are transactions.
    purgeAll(store.maintenance, auditDays, clusterClock.now, isStopping)
      .then(() => {
        purgedAt = machineClock()
      })
      .catch(error => log.error({ event: 'purge.failed', err: error }))
      .finally(() => {
        isPurging = false
      })
  }, PURGE_EVERY_MS).unref()
  return { purgedAt: () => purgedAt, close: () => clearInterval(purging) }
}

/** Purges until nothing is due. */
async function purgeAll(
  maintenance: MaintenanceStore,
  auditDays: number,
  clock: () => Date,
  mustStop: () => boolean,
): Promise<void> {
  while (!mustStop()) {
    const purged = await maintenance.purge(clock(), auditDays)
    if (!purged || purged.isDone) return
    await sleep(PURGE_PAUSE_MS)
  }
}
