// A closed loop: a fixed number of callers, each of which sends its next request after the last answer.
import { setTimeout as sleep } from 'node:timers/promises'
import { loopbackAddress } from './clients.ts'
import { Connection, type Target } from './connection.ts'
import { sum } from './statistics.ts'

export type Sample = { status: number; startedMs: number; endedMs: number }

/** The samples of each caller, in order. */
export type Lanes = Sample[][]

export type ClosedLoop = {
  target: Target
  connections: number
  durationMs: number
  maxRequests?: number
  /** The request with this number, counted over all callers. */
  request: (index: number) => Buffer
  addressOf?: (lane: number) => string
  /** After a 503 a caller waits for its Retry-After, but not longer than this. */
  retryWithinMs?: number
}

const PATIENT_MS = 5_000
/** For callers that must keep the service busy. */
export const IMPATIENT_MS = 10

let requestsSoFar = 0

/** Sends requests until the time is over, then waits for the last answers. */
export async function runClosedLoop(loop: ClosedLoop): Promise<Lanes> {
  const { target, connections, durationMs, request } = loop
  const { addressOf = loopbackAddress, retryWithinMs = PATIENT_MS } = loop
  let left = loop.maxRequests ?? Number.POSITIVE_INFINITY
  const endMs = performance.now() + durationMs
  return Promise.all(
    Array.from({ length: connections }, async (_, lane) => {
      const connection = new Connection(target, addressOf(lane))
      const samples: Sample[] = []
      while (performance.now() < endMs && left-- > 0) {
        const startedMs = performance.now()
        const { status, retryAfterSeconds } = await connection.send(request(requestsSoFar++))
        const endedMs = performance.now()
        samples.push({ status, startedMs, endedMs })
        if (status === 0) throw new Error(`port ${target.port} broke a connection`)
        if (status === 503) {
          const waitMs = Math.min(retryAfterSeconds * 1_000, retryWithinMs)
          await sleep(Math.max(0, Math.min(waitMs, endMs - endedMs)))
        }
      }
      connection.close()
      return samples
    }),
  )
}

/**
 * Answers of one status per second. Each caller counts from its first to its last such answer, so that the
 * start and the end of a short slice do not distort the rate.
 */
export function steadyRate(lanes: Lanes, status: number): number {
  return sum(
    lanes.map(samples => {
      const endsMs = samples
        .filter(sample => sample.status === status)
        .map(({ endedMs }) => endedMs)
      const [first = 0] = endsMs
      const last = endsMs.at(-1) ?? 0
      return last > first ? ((endsMs.length - 1) * 1_000) / (last - first) : 0
    }),
  )
}

/** Answers of one status per second, from the first request to the last answer of all callers. */
export function overallRate(lanes: Lanes, status: number): number {
  const samples = lanes.flat()
  const startMs = Math.min(...samples.map(({ startedMs }) => startedMs))
  const endMs = Math.max(...samples.map(({ endedMs }) => endedMs))
  const count = samples.filter(sample => sample.status === status).length
  return (count * 1_000) / (endMs - startMs)
}

export function latenciesMs(lanes: Lanes, status: number): number[] {
  return lanes
    .flat()
    .filter(sample => sample.status === status)
    .map(({ startedMs, endedMs }) => endedMs - startedMs)
}

/** Throws if there was another status, because the measurement is then not valid. */
export function demandOnly(lanes: Lanes, ...expected: number[]): void {
  const other = lanes.flat().find(({ status }) => !expected.includes(status))
  if (other) throw new Error(`answered ${other.status} instead of ${expected.join(' or ')}`)
}
