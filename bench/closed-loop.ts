// A closed loop: a fixed number of callers, each of which sends its next request after the last answer.
import { availableParallelism } from 'node:os'
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
  /** The request with this number, counted over all callers. */
  request: (index: number) => Buffer
  addressOf?: (lane: number) => string
  /** After a 503 a caller waits for its Retry-After, but not longer than this. */
  retryWithinMs?: number
}

const PATIENT_MS = 5_000
/** For callers that must keep the service busy, and yet leave the cores to the hashes. */
export const IMPATIENT_MS = 100
/** Callers that keep every core busy, also if it computes several hashes at a time. */
export const SATURATING = 8 * availableParallelism()

let requestsSoFar = 0

/** Sends requests until the time is over, then waits for the last answers. */
export async function runClosedLoop(loop: ClosedLoop): Promise<Lanes> {
  const { target, connections, durationMs, request } = loop
  const { addressOf = loopbackAddress, retryWithinMs = PATIENT_MS } = loop
  const endMs = performance.now() + durationMs
  return Promise.all(
    Array.from({ length: connections }, async (_, lane) => {
      const connection = new Connection(target, addressOf(lane))
      const samples: Sample[] = []
      while (performance.now() < endMs) {
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
 * Answers of one status per second while all callers are busy: from the moment at which each has its first
 * answer, to the moment at which one has its last. An answer counts by the share of its request's time in
 * this interval, because hashes may end several at a time, which would distort a count in a short slice.
 */
export function steadyRate(lanes: Lanes, status: number): number {
  const fromMs = Math.max(...lanes.map(samples => samples[0]?.endedMs ?? 0))
  const toMs = Math.min(...lanes.map(samples => samples.at(-1)?.endedMs ?? 0))
  const shares = lanes
    .flat()
    .filter(sample => sample.status === status)
    .map(({ startedMs, endedMs }) => {
      const insideMs = Math.min(endedMs, toMs) - Math.max(startedMs, fromMs)
      return Math.max(0, insideMs) / (endedMs - startedMs)
    })
  return (sum(shares) * 1_000) / (toMs - fromMs)
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
