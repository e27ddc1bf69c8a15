// Limits how often a session is refreshed. Counts in memory, per instance: it limits work and protects no secret.

/** Far more refreshes of one session than any client needs. */
const MAX_REFRESHES = 60
const LIMIT_WINDOW_MS = 60_000

export type Wait = { sessionId: string; retryAfterSeconds: number }

export type RefreshLimit = {
  /**
   * Counts a refresh; returns the seconds to wait if it was one too many. From the last one that is allowed on,
   * the session's next token must wait.
   */
  count(sessionId: string, nextTokenId?: string): number | null
  /** Whether a token must wait, before the database is asked for its session. */
  check(tokenId: string): Wait | null
}

export function createRefreshLimit(clock: () => Date): RefreshLimit {
  const windows = new Map<string, { endsAtMs: number; refreshes: number; slowedTokens: string[] }>()
  /** The sessions of tokens that must wait. */
  const slowedTokens = new Map<string, string>()

  function removeEnded(nowMs: number): void {
    // A map keeps the order of insertion, so the oldest windows come first.
    for (const [id, window] of windows) {
      if (window.endsAtMs > nowMs) break
      windows.delete(id)
      for (const tokenId of window.slowedTokens) slowedTokens.delete(tokenId)
    }
  }

  return {
    count(sessionId, nextTokenId) {
      const nowMs = clock().getTime()
      removeEnded(nowMs)
      const window = windows.get(sessionId) ?? {
        endsAtMs: nowMs + LIMIT_WINDOW_MS,
        refreshes: 0,
        slowedTokens: [],
      }
      windows.set(sessionId, window)
      window.refreshes++
      if (nextTokenId && window.refreshes >= MAX_REFRESHES && !slowedTokens.has(nextTokenId)) {
        slowedTokens.set(nextTokenId, sessionId)
        window.slowedTokens.push(nextTokenId)
      }
      return window.refreshes <= MAX_REFRESHES ? null : secondsUntil(window.endsAtMs, nowMs)
    },
    check(tokenId) {
      const nowMs = clock().getTime()
      removeEnded(nowMs)
      const sessionId = slowedTokens.get(tokenId)
      const window = sessionId && windows.get(sessionId)
      if (!sessionId || !window) return null
      return { sessionId, retryAfterSeconds: secondsUntil(window.endsAtMs, nowMs) }
    },
  }
}

function secondsUntil(endMs: number, nowMs: number): number {
  return Math.ceil((endMs - nowMs) / 1000)
}
