// The throttle, as administrators read and clear it.
import type { ScopeName, ThrottleScope } from './attempt.ts'
import type { Change } from './audit.ts'

/**
 * How long failures are counted, how long a scope is blocked, and how often a failure for the day is forgiven. The
 * specification prescribes it; every other number and text in the code follows from this one.
 */
export const WINDOW_MINUTES = 15
export const WINDOW_MS = WINDOW_MINUTES * 60_000

/** How many failures a scope of each name allows. */
export type ThrottleLimits = Record<
  ScopeName,
  Pick<ThrottleScope, 'maxFailures' | 'maxDailyFailures'>
>

/** A scope as a reservation finds it: what is over does not count, and an ended lease is a failure. */
export type ScopeState = ThrottleScope & {
  /** In the current window. */
  failures: number
  /** Failures that the current window allows: fewer than `maxFailures` when the day is used up. */
  budget: number
  pending: number
  /** Null if no window is running. */
  windowEndsAt: Date | null
  /** For the day: one is forgiven every 15 minutes. */
  dailyFailures: number
  /** When the last of them is forgiven, if no more are added; null if there are none. The column `clears_at`. */
  dayEndsAt: Date | null
  /** Null if the scope is not blocked. */
  blockedUntil: Date | null
}

/**
 * When an attempt need no longer wait for this scope; null if it need not wait now. If the failures are used
 * up and no attempt has come since, the wait ends with the window at the latest; an attempt before that may be
 * refused, and start a block of 15 minutes.
 */
export function waitsUntil(state: ScopeState, now: Date): Date | null {
  if (state.blockedUntil) return state.blockedUntil
  if (state.failures < state.budget) return null
  return state.windowEndsAt ?? new Date(now.getTime() + WINDOW_MS)
}

export interface ThrottleStore {
  /** One state for each of these scopes, with or without a row. */
  read(scopes: ThrottleScope[], now: Date): Promise<ScopeState[]>
  /** The scopes of an email that have a row: email, pairs and devices. */
  readOfEmail(emailDigest: string, limits: ThrottleLimits, now: Date): Promise<ScopeState[]>
  /**
   * The clients and networks with the most failures, the most first, at most 1,000. One bounded read: it does not find
   * those behind 5,000 others whose windows are over, nor those that have no failures but leases that ended.
   */
  listClients(limits: ThrottleLimits, now: Date): Promise<ScopeState[]>
  /** Clears failures and blocks of these scopes of a client; false if there were none. */
  clear(keys: string[], client: string, change: Change): Promise<boolean>
  /** The same for all scopes of an email; also ends the throttle's lock of its user, but no other lock. */
  clearOfEmail(email: string, change: Change): Promise<boolean>
}
