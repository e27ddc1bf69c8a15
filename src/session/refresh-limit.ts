// How often one session may be refreshed: far more often than any client needs.

const MAX_REFRESHES = 60
const WINDOW_MS = 60_000

/** Counts in memory, per instance: it bounds work, it guards no secret. */
export function createRefreshLimit(clock: () => Date) {
  const windows = new Map<string, { endsAtMs: number; refreshes: number }>()
  return (sessionId: string): number | null => {
    const nowMs = clock().getTime()
    // Windows begin in the order of their insertion, so the oldest stand first.
    for (const [id, { endsAtMs }] of windows) {
      if (endsAtMs > nowMs) break
      windows.delete(id)
    }
    const window = windows.get(sessionId) ?? { endsAtMs: nowMs + WINDOW_MS, refreshes: 0 }
    windows.set(sessionId, window)
    window.refreshes++
    return window.refreshes <= MAX_REFRESHES ? null : Math.ceil((window.endsAtMs - nowMs) / 1000)
  }
}
