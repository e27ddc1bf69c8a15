// One clock for all instances on a database: the clock of the database, read once a minute, plus the monotonic time
// since. Setting the machine's clock does not change it. SQLite has only the machine's clock.
import type { MaintenanceStore } from '../domain/maintenance.ts'
import type { Log } from '../log/log.ts'

/** Above this a clock is not synchronised well, and the operator is warned. */
export const WARN_ABOVE_MS = 2_000
/** Above this a clock is wrong: the instance is not ready until it has been set. */
export const NOT_READY_ABOVE_MS = 60_000

const READINGS = 3
const READ_EVERY_MS = 60_000
const CHECK_EVERY_MS = 1_000
/** A smaller difference of the machine's clock and the monotonic clock is not a step. */
const MOVED_MS = 500
/** Readings are not more exact. The time must not go back because two clocks are read at different moments. */
const EXACT_MS = 5

type ClockStore = Pick<MaintenanceStore, 'readClock'>

/** What the database's clock showed when the monotonic clock showed `atMs`; null on SQLite. */
type Reading = { databaseMs: number; atMs: number } | null

/**
 * Assumes that the database read its clock in the middle of the round trip; the shortest round trip leaves the
 * smallest error. An earlier reading within the possible error stays: it may be more exact, because a round trip
 * includes the wait for a free connection.
 */
export async function readDatabaseClock(store: ClockStore, earlier: Reading = null) {
  let best: Reading = null
  let shortestMs = Number.POSITIVE_INFINITY
  for (let reading = 0; reading < READINGS; reading++) {
    const askedMs = performance.now()
    const databaseNow = await store.readClock()
    if (databaseNow === null) return null
    const tripMs = performance.now() - askedMs
    if (tripMs >= shortestMs) continue
    shortestMs = tripMs
    best = { databaseMs: databaseNow.getTime(), atMs: askedMs + tripMs / 2 }
    const differenceMs = Math.abs(offsetOf(best) - offsetOf(earlier))
    // Both clocks are read in whole milliseconds.
    if (earlier && differenceMs <= tripMs / 2 + 1) best = earlier
  }
  return best
}

/** How far the database's clock is ahead of the machine's. */
export function offsetOf(reading: Reading): number {
  if (!reading) return 0
  return Math.round(reading.databaseMs + performance.now() - reading.atMs - Date.now())
}

/** A sentence about a wrong clock, with what to do. */
export function describeOffset(offsetMs: number): string {
  const seconds = (Math.abs(offsetMs) / 1000).toFixed(1)
  const direction = offsetMs < 0 ? 'ahead of' : 'behind'
  return `the clock of this machine is ${seconds} s ${direction} the clock of the database: synchronise both, for example by NTP`
}

/**
 * Reads the database's clock now, every minute, and after the machine was suspended or its clock was set: the
 * monotonic clock may have stood still. If that fails, the last reading stays.
 */
export async function openClusterClock(store: ClockStore, clock: () => Date, log: Log) {
  let reading = await readDatabaseClock(store)
  let lastOffsetMs = offsetOf(reading)
  let dueMs = performance.now() + READ_EVERY_MS
  let isReading = false
  let lastLimitMs = 0

  /** One line when the machine's clock becomes wrong, worse or right, not one per reading. */
  function report(offsetMs: number): void {
    const limits = [NOT_READY_ABOVE_MS, WARN_ABOVE_MS]
    const limitMs = limits.find(limit => Math.abs(offsetMs) > limit) ?? 0
    if (limitMs === lastLimitMs) return
    lastLimitMs = limitMs
    if (limitMs === 0) log.info({ event: 'clock.right', offsetMs })
    else log.warn({ event: 'clock.wrong', offsetMs }, describeOffset(offsetMs))
  }
  report(lastOffsetMs)

  async function readIfDue(): Promise<void> {
    const isMoved = Math.abs(offsetOf(reading) - lastOffsetMs) > MOVED_MS
    if (isReading || (performance.now() < dueMs && !isMoved)) return
    isReading = true
    dueMs = performance.now() + READ_EVERY_MS
    try {
      reading = await readDatabaseClock(store, reading)
      lastOffsetMs = offsetOf(reading)
      report(lastOffsetMs)
    } catch {
      // The database does not answer, which requests and readiness report. Tried again in a second.
      dueMs = 0
    } finally {
      isReading = false
    }
  }
  const checking = setInterval(readIfDue, CHECK_EVERY_MS).unref()

  let steadyMs = 0
  function steadyOffset(): number {
    const offsetMs = offsetOf(reading)
    if (Math.abs(offsetMs - steadyMs) > EXACT_MS) steadyMs = offsetMs
    return steadyMs
  }

  return {
    /** `clock` differs from the machine's only in tests, which move it. */
    now: () => new Date(clock().getTime() + steadyOffset()),
    offsetMs: () => offsetOf(reading),
    /** Throws while the machine's clock is too wrong to serve. */
    check(): void {
      const offsetMs = offsetOf(reading)
      if (Math.abs(offsetMs) > NOT_READY_ABOVE_MS) throw new Error(describeOffset(offsetMs))
    },
    /** To be called when the database may have become another server. */
    readSoon(): void {
      dueMs = 0
    },
    close: () => clearInterval(checking),
  }
}
