// Limits how often a session is refreshed. Counts in memory, per instance: it limits work and protects no secret.

/** Far more refreshes of one session than any client needs. */
const MAX_REFRESHES = 60
const WINDOW_MS = 60_000

export type Limited = { kind: 'limited'; sessionId: string; retryAfterSeconds: number }
export type RefreshLimit = ReturnType<typeof createRefreshLimit>

type Window = { sessionId: string; endsAtMs: number; refreshes: number }

export function createRefreshLimit(clock: () => Date) {
  /** By the ids of sessions, and of tokens of sessions that have no refreshes left. */
  const windows = new Map<string, Window>()

  function find(id: string, nowMs: number): Window | null {
    // A map keeps the order of insertion: the oldest windows come first.
    for (const [oldest, { endsAtMs }] of windows) {
      if (endsAtMs > nowMs) break
      windows.delete(oldest)
    }
    const found = windows.get(id)
    return found && found.endsAtMs > nowMs ? found : null
  }

  function toLimited({ sessionId, endsAtMs }: Window, nowMs: number): Limited {
    return { kind: 'limited', sessionId, retryAfterSeconds: Math.ceil((endsAtMs - nowMs) / 1000) }
  }

  return {
    /** Counts a refresh; not null if it was one too many. `nextTokenId`: the token that the session will show next. */
    count(sessionId: string, nextTokenId?: string): Limited | null {
      const nowMs = clock().getTime()
      const running = find(sessionId, nowMs)
      const window = running ?? { sessionId, endsAtMs: nowMs + WINDOW_MS, refreshes: 0 }
      if (!running) windows.set(sessionId, window)
      window.refreshes++
      if (nextTokenId && window.refreshes >= MAX_REFRESHES) windows.set(nextTokenId, window)
      return window.refreshes > MAX_REFRESHES ? toLimited(window, nowMs) : null
    },
    /** Whether a token must wait, before the database is asked for its session. */
    check(tokenId: string): Limited | null {
      const nowMs = clock().getTime()
      const window = find(tokenId, nowMs)
      return window && toLimited(window, nowMs)
    },
  }
}
