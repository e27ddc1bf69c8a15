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
export type RefreshLimits = ReturnType<typeof createRefreshLimits>
export type ReadLimit = ReturnType<typeof createReadLimit>

export function createRefreshLimits(clock: () => Date) {
  const bySession = createRateLimit(MAX_REFRESHES, clock)
  const byUser = createRateLimit(MAX_REFRESHES_OF_USER, clock)

  /** Of a session that may have ended. Not null if it must wait. */
  function begin(sessionId: string, userId: string): Limited | null {
    return toLimited(sessionId, bySession.count(sessionId) ?? byUser.check(userId))
  }
  /** Only what succeeds counts for the user: the tokens of ended sessions must not use up the refreshes of the others. */
  function succeed(userId: string): void {
    byUser.count(userId)
  }
  return {
    begin,
    succeed,
    /** Of a live session: both at once. */
    count(sessionId: string, userId: string): Limited | null {
      const limited = begin(sessionId, userId)
      if (limited === null) succeed(userId)
      return limited
    },
  }
}

/** Not null if the session must wait. */
export function createReadLimit(clock: () => Date) {
  const bySession = createRateLimit(MAX_READS, clock)
  return (sessionId: string) => toLimited(sessionId, bySession.count(sessionId))
}

function toLimited(sessionId: string, retryAfterSeconds: number | null): Limited | null {
  return retryAfterSeconds === null ? null : { kind: 'limited', sessionId, retryAfterSeconds }
}

type Window = { endsAtMs: number; count: number }

/** Both functions return the seconds to wait; null if this request is not one too many. */
function createRateLimit(max: number, clock: () => Date) {
  const windows = new Map<string, Window>()

  /** A new one if there was no request in the last minute. */
  function windowOf(id: string, nowMs: number): Window {
    // A map keeps the order of insertion: the oldest windows come first.
    for (const [oldest, { endsAtMs }] of windows) {
      // One that ends later than it can began before the clock was set back.
      if (endsAtMs > nowMs && endsAtMs <= nowMs + WINDOW_MS) break
      windows.delete(oldest)
    }
    const found = windows.get(id)
    return found && found.endsAtMs > nowMs ? found : { endsAtMs: nowMs + WINDOW_MS, count: 0 }
  }

  const toWait = ({ endsAtMs, count }: Window, nowMs: number) =>
    count >= max ? Math.ceil((endsAtMs - nowMs) / 1000) : null

  return {
    check(id: string): number | null {
      const nowMs = clock().getTime()
      return toWait(windowOf(id, nowMs), nowMs)
    },
    /** Counts the request unless it must wait. */
    count(id: string): number | null {
      const nowMs = clock().getTime()
      const window = windowOf(id, nowMs)
      const waitSeconds = toWait(window, nowMs)
      if (waitSeconds !== null) return waitSeconds
      windows.set(id, window)
      window.count++
      return null
    },
  }
}
