// Paces the refusals of one client. A client that repeats at once after every refusal would take processor
// time that the passwords of others need, so its refusals are delayed while other clients come too.
import { setTimeout as sleep } from 'node:timers/promises'

const SPACING_MS = 10
/** Refusals that are not delayed, even if they come all at once. */
const BURST = 50
const LONGEST_DELAY_MS = 1_000
/** A delayed refusal keeps its connection busy, so there must not be too many. */
const MAX_DELAYED = 1_024
/** For this long after an attempt of another client, refusals are paced. */
const SHARED_MS = 10_000

export type Pace = {
  /** Must be called for every attempt. */
  arrive(client: string): void
  /** Waits before a refusal, if this client gets very many of them while others come. */
  beforeRefusal(client: string): Promise<void>
}

export function createPace(
  nowMs = () => performance.now(),
  wait: (ms: number) => Promise<unknown> = sleep,
): Pace {
  /** When the next refusal of a client is due. The client that was refused least recently comes first. */
  const due = new Map<string, number>()
  let latest: string | null = null
  let sharedMs = Number.NEGATIVE_INFINITY
  let delayed = 0

  return {
    arrive(client) {
      if (latest !== null && client !== latest) sharedMs = nowMs()
      latest = client
    },
    async beforeRefusal(client) {
      const now = nowMs()
      const earliestMs = now - BURST * SPACING_MS
      for (const [other, dueMs] of due) {
        if (dueMs > earliestMs) break
        due.delete(other)
      }
      const dueMs = Math.min(
        Math.max(due.get(client) ?? 0, earliestMs) + SPACING_MS,
        now + LONGEST_DELAY_MS,
      )
      due.delete(client)
      due.set(client, dueMs)
      const isShared = now - sharedMs < SHARED_MS
      if (dueMs <= now || !isShared || delayed >= MAX_DELAYED) return
      delayed++
      await wait(dueMs - now)
      delayed--
    },
  }
}
