// Limits how often a session and its user ask for work. Counts in memory, per instance: it limits work and protects no
// secret.

const WINDOW_MS = 60_000
/** So that a user with many sessions cannot ask for as many times the work. */
const USER_FACTOR = 10

/** Far more refreshes and codes of one session in a minute than any client needs. */
export const MAX_REFRESHES = 60
/** Pages and other requests by the cookie of a session. */
export const MAX_REQUESTS_BY_COOKIE = 600

export type Limited = { kind: 'limited'; sessionId: string; retryAfterSeconds: number }
export type RateLimit = ReturnType<typeof createRateLimit>

type Window = { endsAtMs: number; count: number }

/** `maxPerSession` in a minute, and ten times as often for all sessions of a user. */
export function createRateLimit(maxPerSession: number, clock: () => Date) {
  /** By the ids of sessions and users. */
  const windows = new Map<string, Window>()

  /** One that ends later than it can began before the clock was set back. */
  const isRunning = ({ endsAtMs }: Window, nowMs: number) =>
    endsAtMs > nowMs && endsAtMs <= nowMs + WINDOW_MS

  function windowOf(id: string, nowMs: number): Window {
    // A map keeps the order of insertion: the oldest windows come first.
    for (const [oldest, window] of windows) {
      if (isRunning(window, nowMs)) break
      windows.delete(oldest)
    }
    const found = windows.get(id)
    if (found && isRunning(found, nowMs)) return found
    const started = { endsAtMs: nowMs + WINDOW_MS, count: 0 }
    windows.delete(id)
    windows.set(id, started)
    return started
  }

  /** Counts a request; not null if it is one too many. What one session asks for in vain does not count for its user. */
  return function limit(sessionId: string, userId: string): Limited | null {
    const nowMs = clock().getTime()
    const limits = [
      { window: windowOf(sessionId, nowMs), max: maxPerSession },
      { window: windowOf(userId, nowMs), max: maxPerSession * USER_FACTOR },
    ]
    for (const { window, max } of limits) {
      if (window.count >= max) {
        const retryAfterSeconds = Math.ceil((window.endsAtMs - nowMs) / 1000)
        return { kind: 'limited', sessionId, retryAfterSeconds }
      }
      window.count++
    }
    return null
  }
}
