// An open loop: requests arrive by a schedule without waiting for answers, as from independent users.
// Latency counts from the scheduled moment, so that a late start of a request is included.
import { setTimeout as sleep } from 'node:timers/promises'
import { loopbackAddress } from './clients.ts'
import { type Answer, Connection, type Target } from './connection.ts'
import { createRandom } from './statistics.ts'

/** The status, the latency, and when the answer came, in milliseconds from the start. */
export type Arrival = { status: number; latencyMs: number; endedMs: number }

export type OpenLoop = {
  target: Target
  /** When each arrival is due, in milliseconds from now. */
  scheduleMs: number[]
  request: (index: number) => Buffer
  onAnswer?: (answer: Answer, index: number) => void
}

/** Enough clients to keep each one below its limit of pending attempts. */
const ADDRESSES = 128

/** Independent arrivals at this rate (a Poisson process), the same in every run. */
export function poissonSchedule(perSecond: number, durationMs: number): number[] {
  const random = createRandom(1)
  const dueMs: number[] = []
  for (let nextMs = 0; ; ) {
    nextMs -= (Math.log(1 - random()) * 1_000) / perSecond
    if (nextMs >= durationMs) return dueMs
    dueMs.push(nextMs)
  }
}

export function evenSchedule(everyMs: number, durationMs: number): number[] {
  return Array.from({ length: Math.floor(durationMs / everyMs) }, (_, index) => index * everyMs)
}

export async function runOpenLoop(loop: OpenLoop): Promise<Arrival[]> {
  const { target, scheduleMs, request, onAnswer } = loop
  const startMs = performance.now()
  const idle: Connection[] = []
  const opened: Connection[] = []
  const arrivals: Promise<Arrival>[] = []

  async function arrive(index: number, dueMs: number): Promise<Arrival> {
    let connection = idle.pop()
    if (!connection) {
      connection = new Connection(target, loopbackAddress(opened.length % ADDRESSES))
      opened.push(connection)
    }
    const answer = await connection.send(request(index))
    const endedMs = performance.now() - startMs
    idle.push(connection)
    onAnswer?.(answer, index)
    return { status: answer.status, latencyMs: endedMs - dueMs, endedMs }
  }

  for (const [index, dueMs] of scheduleMs.entries()) {
    const aheadMs = dueMs - (performance.now() - startMs)
    if (aheadMs > 1) await sleep(aheadMs)
    arrivals.push(arrive(index, dueMs))
  }
  const answered = await Promise.all(arrivals)
  for (const connection of opened) connection.close()
  return answered
}
