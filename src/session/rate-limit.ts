// Limits how often something is asked for in a minute. Counts in memory, per instance: it limits work and protects no
// secret.

const WINDOW_MS = 60_000
/** Far more refreshes and codes of one session than any client needs. */
const MAX_REFRESHES = 60
/** So that a user with many sessions cannot ask for as many times the work. */
const MAX_REFRESHES_OF_USER = 600
/** Pages and reads by the cookie of a session. */
const MAX_READS = 600

export type Limited = { kind: 'limited'; sessionId: string; retryAfterSeconds: number }
type RateLimit = ReturnType<typeof createRateLimit>
export type RefreshLimits = { session: RateLimit; user: RateLimit }

export const createRefreshLimits = (clock: () => Date): RefreshLimits => ({
  session: createRateLimit(MAX_REFRESHES, clock),
  user: createRateLimit(MAX_REFRESHES_OF_USER, clock),
})

/** Of a session: null if it may be answered. */
export function createReadLimit(clock: () => Date) {
  const limit = createRateLimit(MAX_READS, clock)
  return (sessionId: string) => toLimited(sessionId, limit.count(sessionId))
}
export type ReadLimit = ReturnType<typeof createReadLimit>

export function toLimited(sessionId: string, retryAfterSeconds: number | null): Limited | null {
  return retryAfterSeconds === null ? null : { kind: 'limited', sessionId, retryAfterSeconds }
}

function createRateLimit(max: number, clock: () => Date) {
  const windows = new Map<string, { endsAtMs: number; count: number }>()

  /** Null if there was no request in the last minute. */
  function find(id: string, nowMs: number) {
    // A map keeps the order of insertion: the oldest windows come first.
    for (const [oldest, { endsAtMs }] of windows) {
      // One that ends later than it can began before the clock was set back.
      if (endsAtMs > nowMs && endsAtMs <= nowMs + WINDOW_MS) break
      windows.delete(oldest)
    }
    const found = windows.get(id)
    return found && found.endsAtMs > nowMs ? found : null
  }

  /** The seconds to wait; null if the next request is not one too many. */
  function check(id: string): number | null {
    const nowMs = clock().getTime()
    const window = find(id, nowMs)
    return window && window.count >= max ? Math.ceil((window.endsAtMs - nowMs) / 1000) : null
  }

  return {
    check,
    /** The same, and counts the request unless it must wait. */
    count(id: string): number | null {
      const waitSeconds = check(id)
      if (waitSeconds !== null) return waitSeconds
      const nowMs = clock().getTime()
      const window = find(id, nowMs) ?? { endsAtMs: nowMs + WINDOW_MS, count: 0 }
      windows.set(id, window)
      window.count++
      return null
    },
  }
}
