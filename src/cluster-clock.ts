// One clock for all instances on a database: the clock of the database. An instance measures how far it is from
// the machine's clock, and corrects every time that is stored or compared. SQLite has only the machine's clock.
import type { MaintenanceStore } from './domain/maintenance.ts'
import type { Log } from './log/log.ts'

/** Above this a clock is not synchronised well, and the operator is warned. */
export const WARN_ABOVE_MS = 2_000
/** Above this a clock is wrong: the instance is not ready until it has been set. */
export const NOT_READY_ABOVE_MS = 60_000

const READINGS = 3
const MEASURE_EVERY_MS = 60_000
const CHECK_EVERY_MS = 1_000
/** A smaller difference of the machine's clock and the monotonic clock is not a step. */
const STEP_MS = 500

type ClockStore = Pick<MaintenanceStore, 'readClock'>

export type Offset = {
  /** How far the database's clock is ahead of the machine's. */
  ms: number
  /** The time on the machine's clock at which the monotonic clock was 0. */
  originMs: number
}

/**
 * Assumes that the database read its clock in the middle of the round trip; the shortest round trip leaves the
 * smallest error. An expected offset within the possible error stays: it may be more exact than the measurement,
 * whose round trip includes the wait for a free connection. Uses the real time of the machine, so that time moved
 * by a test stays moved.
 */
export async function measureOffset(store: ClockStore, expectedMs = 0): Promise<Offset> {
  let offset = { ms: 0, originMs: machineOriginMs() }
  let shortestMs = Number.POSITIVE_INFINITY
  for (let reading = 0; reading < READINGS; reading++) {
    const askedMs = performance.now()
    const originMs = Date.now() - askedMs
    const databaseNow = await store.readClock()
    if (databaseNow === null) break
    const tripMs = performance.now() - askedMs
    if (tripMs >= shortestMs) continue
    shortestMs = tripMs
    const ms = Math.round(databaseNow.getTime() - (originMs + askedMs + tripMs / 2))
    // Both clocks are read in whole milliseconds.
    const isAsExpected = Math.abs(ms - expectedMs) <= tripMs / 2 + 1
    offset = { ms: isAsExpected ? expectedMs : ms, originMs }
  }
  return offset
}

function machineOriginMs(): number {
  return Date.now() - performance.now()
}

export function correct(time: Date, offset: Pick<Offset, 'ms'>): Date {
  return new Date(time.getTime() + offset.ms)
}

/** A sentence about a wrong clock, with what to do. */
export function describeOffset({ ms }: Offset): string {
  const seconds = (Math.abs(ms) / 1000).toFixed(1)
  const direction = ms < 0 ? 'ahead of' : 'behind'
  return `the clock of this machine is ${seconds} s ${direction} the clock of the database: synchronise both, for example by NTP`
}

/** Measures now, every minute, and soon after the machine's clock was set. If that fails, the last offset stays. */
export async function openClusterClock(store: ClockStore, clock: () => Date, log: Log) {
  const report = createReport(log)
  let offset = await measureOffset(store)
  report(offset)
  let dueMs = performance.now() + MEASURE_EVERY_MS
  let isMeasuring = false
  /** How far the machine's clock was set since the last measurement: the monotonic clock did not follow. */
  const stepMs = () => {
    const ms = machineOriginMs() - offset.originMs
    return Math.abs(ms) > STEP_MS ? ms : 0
  }

  async function measureIfDue(): Promise<void> {
    const isDue = performance.now() >= dueMs || stepMs() !== 0
    if (isMeasuring || !isDue) return
    isMeasuring = true
    dueMs = performance.now() + MEASURE_EVERY_MS
    try {
      offset = await measureOffset(store, Math.round(offset.ms - stepMs()))
      report(offset)
    } catch {
      // The database does not answer, which requests and readiness report. Tried again in a second.
      dueMs = 0
    } finally {
      isMeasuring = false
    }
  }
  const measuring = setInterval(measureIfDue, CHECK_EVERY_MS).unref()

  return {
    now: () => correct(clock(), { ms: offset.ms - stepMs() }),
    /** How far the database's clock is ahead of the machine's; 0 on SQLite. */
    offsetMs: () => offset.ms,
    /** Throws while the machine's clock is too wrong to serve. */
    check(): void {
      if (Math.abs(offset.ms) > NOT_READY_ABOVE_MS) throw new Error(describeOffset(offset))
    },
    /** To be called when the database may have become another server. */
    measureSoon(): void {
      dueMs = 0
    },
    close: () => clearInterval(measuring),
  }
}

/** One line when the machine's clock becomes wrong, worse or right, not one per measurement. */
function createReport(log: Log): (offset: Offset) => void {
  let lastLimitMs = 0
  return offset => {
    const limits = [NOT_READY_ABOVE_MS, WARN_ABOVE_MS]
    const limitMs = limits.find(limit => Math.abs(offset.ms) > limit) ?? 0
    if (limitMs === lastLimitMs) return
    lastLimitMs = limitMs
    const offsetMs = offset.ms
    if (limitMs === 0) log.info({ event: 'clock.right', offsetMs })
    else log.warn({ event: 'clock.wrong', offsetMs }, describeOffset(offset))
  }
}
