// The rules of the throttle as a plain program, to compare both engines with. docs/throttle.md has them in
// a table. Times are milliseconds; constants are written out so that a wrong one in an engine is found.
import type { ScopeName, ThrottleScope } from '../../src/domain/attempt.ts'
import type { LockedBy } from '../../src/domain/user.ts'

const LEASE = 60_000
const WINDOW = 15 * 60_000

export type ScopeState = {
  scope: ScopeName
  emailDigest: string | null
  failures: number
  pending: number
  /** One lease for all pending attempts; each reservation renews it. */
  leaseEndsAt: number
  windowEndsAt: number
  blockedUntil: number | null
  /** Of an email only: every failure makes it later by one window. */
  clearsAt: number | null
  /** From this moment on, a purge removes the row. */
  expiresAt: number
}

export type UserState = {
  id: string
  passwordHash: string
  failedLoginAttempts: number
  lockedUntil: number | null
  lockedBy: LockedBy | null
}

const CLEARED = { failures: 0, clearsAt: null, blockedUntil: null }
const UNLOCKED = { lockedUntil: null, lockedBy: null }

/** True until `end`. An end more than two spans away was written by a clock that was wrong: ignored. */
function isRunning(end: number | null, now: number, span: number): boolean {
  return end !== null && now < end && end <= now + 2 * span
}

export class ThrottleModel {
  /** By key. */
  readonly scopes = new Map<string, ScopeState>()
  /** By email. */
  readonly users: Map<string, UserState>

  constructor(users: Iterable<[string, UserState]>) {
    this.users = new Map(Array.from(users, ([email, user]) => [email, { ...user }]))
  }

  /** What an administrator reads. */
  read(scopes: ThrottleScope[], now: number) {
    return scopes.map(scope => {
      const { state, isWindowOver, budget } = this.#currentState(scope, now)
      const { failures, pending, blockedUntil, windowEndsAt, clearsAt } = state
      return {
        ...{ ...scope, failures, pending, budget, blockedUntil, dayEndsAt: clearsAt },
        windowEndsAt: isWindowOver ? null : windowEndsAt,
        dailyFailures: Math.ceil(((clearsAt ?? now) - now) / WINDOW),
      }
    })
  }

  /** Blocked before busy, busy before admitted. Only an admitted attempt becomes pending. */
  reserve(scopes: ThrottleScope[], email: string, now: number) {
    const current = scopes.map(scope => this.#currentState(scope, now))

    const blocking = current.filter(
      ({ state, budget }) => state.blockedUntil !== null || state.failures >= budget,
    )
    if (blocking.length > 0) {
      let lockedUserId: string | null = null
      for (const { key, state } of blocking) {
        if (state.blockedUntil !== null) continue
        state.blockedUntil = now + WINDOW
        this.#keep(key, state, now)
        if (state.scope === 'email') lockedUserId = this.#lockByThrottle(email, now)
      }
      const [longest] = blocking
        .map(({ state }) => ({ scope: state.scope, blockedUntil: state.blockedUntil ?? 0 }))
        .sort((a, b) => b.blockedUntil - a.blockedUntil)
      if (longest) return { kind: 'blocked', ...longest, lockedUserId }
    }

    const found = this.users.get(email)
    const user = found ? { ...found } : null
    for (const { key, state, budget } of current) {
      const capacity = budget - state.failures
      if (state.pending >= capacity) return { kind: 'busy', user, key, capacity }
    }

    for (const { key, state, isWindowOver } of current) {
      state.pending += 1
      state.leaseEndsAt = now + LEASE
      if (isWindowOver) state.windowEndsAt = now + WINDOW
      this.#keep(key, state, now)
    }
    return { kind: 'admitted', user }
  }

  release(scopes: ThrottleScope[]): void {
    for (const state of this.#stored(scopes)) state.pending = Math.max(0, state.pending - 1)
  }

  /** Returns the user's consecutive failures, 0 without a user. */
  fail(scopes: ThrottleScope[], email: string, now: number): number {
    this.release(scopes)
    for (const state of this.#stored(scopes)) {
      const isWindowOver = state.windowEndsAt <= now
      if (isWindowOver || state.failures === 0) state.windowEndsAt = now + WINDOW
      state.failures = isWindowOver ? 1 : state.failures + 1

      state.expiresAt = now + LEASE + WINDOW
      if (state.scope !== 'email') continue
      state.clearsAt = Math.max(state.clearsAt ?? 0, now) + WINDOW
      state.expiresAt = Math.max(state.expiresAt, state.clearsAt)
    }
    const user = this.users.get(email)
    if (!user) return 0
    user.failedLoginAttempts += 1
    return user.failedLoginAttempts
  }

  /** False, and neither a success nor a failure, if the user is no longer as verified. */
  succeed(scopes: ThrottleScope[], email: string, passwordHash: string, now: number): boolean {
    const user = this.users.get(email)
    const isAsVerified = user?.passwordHash === passwordHash && !isLockedByAdministrator(user, now)
    if (isAsVerified) this.pass(scopes, email, now)
    else this.release(scopes)
    return isAsVerified
  }

  /** A success without a session. With an email, it is noted of its user. */
  pass(scopes: ThrottleScope[], email: string | null, now: number): void {
    this.release(scopes)
    for (const state of this.#stored(scopes)) {
      if (state.scope === 'pair' || state.scope === 'device') state.failures = 0
    }
    const user = email === null ? undefined : this.users.get(email)
    if (!user) return
    user.failedLoginAttempts = 0
    if (user.lockedUntil !== null && user.lockedUntil <= now) Object.assign(user, UNLOCKED)
  }

  lock(email: string, lockedUntil: number): boolean {
    const user = this.users.get(email)
    if (user) Object.assign(user, { lockedUntil, lockedBy: 'administrator' })
    return user !== undefined
  }

  /** Pending attempts stay pending. */
  unlock(email: string, emailDigest: string): boolean {
    const user = this.users.get(email)
    if (!user) return false
    this.#clearScopesOf(emailDigest)
    Object.assign(user, { failedLoginAttempts: 0, ...UNLOCKED })
    return true
  }

  /** The same for the scopes of a client. */
  clearClient(scopes: ThrottleScope[]): void {
    for (const state of this.#stored(scopes)) Object.assign(state, CLEARED)
  }

  /** With or without a user. Leaves the user's failures and the lock of an administrator. */
  clearEmail(email: string, emailDigest: string): void {
    this.#clearScopesOf(emailDigest)
    const user = this.users.get(email)
    if (user?.lockedBy === 'throttle') Object.assign(user, UNLOCKED)
  }

  #clearScopesOf(emailDigest: string): void {
    for (const state of this.scopes.values()) {
      if (state.emailDigest === emailDigest) Object.assign(state, CLEARED)
    }
  }

  /** Returns how many rows it removed. */
  purge(now: number): number {
    const expired = [...this.scopes].filter(([, state]) => state.expiresAt <= now)
    for (const [key] of expired) this.scopes.delete(key)
    return expired.length
  }

  /** A copy of the scope's state in which ended leases, windows and blocks have taken effect. */
  #currentState(scope: ThrottleScope, now: number) {
    const { key, name, emailDigest, maxFailures, maxDailyFailures } = scope
    const state: ScopeState = { ...(this.scopes.get(key) ?? emptyState(name, emailDigest)) }

    const isBlocked = isRunning(state.blockedUntil, now, WINDOW)
    const isWindowOver =
      state.blockedUntil === null ? !isRunning(state.windowEndsAt, now, WINDOW) : !isBlocked
    if (isWindowOver) state.failures = 0
    if (!isBlocked) state.blockedUntil = null

    const abandoned = isRunning(state.leaseEndsAt, now, LEASE) ? 0 : state.pending
    state.pending -= abandoned
    state.failures += abandoned
    if (maxDailyFailures === null) return { key, state, isWindowOver, budget: maxFailures }
    if (!isRunning(state.clearsAt, now, maxDailyFailures * WINDOW)) state.clearsAt = null
    if (abandoned > 0) state.clearsAt = (state.clearsAt ?? now) + abandoned * WINDOW

    // A window admits an attempt if it would fail within the budget for the day, or be the window's first failure.
    const leftForTheDay = now + maxDailyFailures * WINDOW - (state.clearsAt ?? now)
    const allowed = state.failures + Math.floor(leftForTheDay / WINDOW)
    return { key, state, isWindowOver, budget: Math.max(1, Math.min(maxFailures, allowed)) }
  }

  #keep(key: string, state: ScopeState, now: number): void {
    state.expiresAt = Math.max(state.expiresAt, now + LEASE + WINDOW, state.clearsAt ?? 0)
    this.scopes.set(key, state)
  }

  #stored(scopes: ThrottleScope[]): ScopeState[] {
    return scopes.flatMap(({ key }) => this.scopes.get(key) ?? [])
  }

  #lockByThrottle(email: string, now: number): string | null {
    const user = this.users.get(email)
    if (!user || isLockedByAdministrator(user, now)) return null
    user.lockedUntil = now + WINDOW
    user.lockedBy = 'throttle'
    return user.id
  }
}

function isLockedByAdministrator({ lockedUntil, lockedBy }: UserState, now: number): boolean {
  return lockedUntil !== null && now < lockedUntil && lockedBy !== 'throttle'
}

function emptyState(scope: ScopeName, emailDigest: string | null): ScopeState {
  return {
    ...{ scope, emailDigest, failures: 0, pending: 0, leaseEndsAt: 0 },
    ...{ windowEndsAt: 0, blockedUntil: null, clearsAt: null, expiresAt: 0 },
  }
}
