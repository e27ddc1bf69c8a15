// The use case: one login attempt, steps 3 to 8, read downwards.
import type { Budgets, Reservation, ScopeName, ThrottleScope } from '../domain/attempt.ts'
import type { Store } from '../domain/store.ts'
import type { User } from '../domain/user.ts'
import { turnNetwork } from './client-group.ts'
import { canonicalEmail, lookupKey, matchablePassword } from './credentials.ts'
import { decide, type RejectionReason } from './decision.ts'
import {
  type DeviceCookie,
  type DeviceTokens,
  deviceToRemember,
  findKnownDevice,
} from './device.ts'
import type { HashClaim, HashQueue, HashSlot } from './hash-queue.ts'
import { type OpenedSession, type OpenSessionDeps, openSession } from './open-session.ts'
import type { Pace } from './pace.ts'
import type { Passwords } from './passwords.ts'
import { deviceScopes, throttleScopes } from './scopes.ts'
import type { Throttle } from './throttle.ts'

/** Hashing may take this share of a login's time, even if a slow database has used up more than the rest. */
const HASHING_SHARE = 0.5
/** The limit of the wait for a busy scope is at least this long. */
const WAIT_MIN_MS = 2_000
/** NIST SP 800-63B-4, 3.2.2 allows at most 100 consecutive failures: operators must look at the account. */
const ALARM_EVERY_FAILURES = 100

export type LoginAttempt = {
  email: string
  password: string
  client: Client
  /** The value of the device cookie that the caller sent. */
  deviceToken: string | null
  /** The value of the session cookie that the caller sent. A browser's successful login ends that session. */
  sessionCookie: string | null
}

export type Client = {
  ip: string
  /** The client scope counts by this: an IPv4 address, or the /64 network of an IPv6 address. */
  group: string
  /** The /48 network of an IPv6 address, which may belong to one subscriber; null for IPv4. */
  network: string | null
  userAgent: string
  /** Only browsers get cookies. */
  isBrowser: boolean
}

export type LoginOutcome =
  | {
      kind: 'signed-in'
      user: User
      session: OpenedSession
      /** Null if the caller is not a browser. */
      deviceCookie: DeviceCookie | null
      /** Replaces a hash of another cost, after the answer; null if that is not necessary. */
      rehash: (() => Promise<void>) | null
    }
  | {
      kind: 'rejected'
      email: string
      reason: RejectionReason
      /** Set at every 100th consecutive failure of a user. */
      alarm: { userId: string; failures: number } | null
    }
  | {
      kind: 'throttled'
      email: string
      scope: ScopeName
      retryAfterSeconds: number
      lockedUserId: string | null
    }
  /** The service has no time for it. The attempt is not counted. */
  | { kind: 'shed'; email: string; reason: ShedReason }

/** `too-late`: it had a hash slot, but gave way to others or its turn came too late. */
export type ShedReason = 'no-slot' | 'scope-busy' | 'too-late'

type LoginDeps = OpenSessionDeps & {
  store: Pick<Store, 'attempts' | 'devices' | 'users'>
  throttle: Throttle
  passwords: Passwords
  hashQueue: HashQueue
  pace: Pace
  deviceTokens: DeviceTokens
  budgets: Budgets
  /** A login is shed if waiting for its hash would make it take longer. */
  loginTimeMs: number
  clock: () => Date
}

export async function login(deps: LoginDeps, attempt: LoginAttempt): Promise<LoginOutcome> {
  const { pace } = deps
  // An IPv6 network of one subscriber has many addresses, but one pace.
  const client = attempt.client.network ?? attempt.client.group
  pace.arrive(client)
  const outcome = await tryToLogIn(deps, attempt)
  if (outcome.kind === 'shed' || outcome.kind === 'throttled') await pace.beforeRefusal(client)
  return outcome
}

async function tryToLogIn(deps: LoginDeps, attempt: LoginAttempt): Promise<LoginOutcome> {
  const { store, throttle, passwords, clock } = deps
  const arrivedMs = performance.now()
  const { loginTimeMs } = deps
  const finishByMs = () =>
    Math.max(arrivedMs + loginTimeMs, performance.now() + loginTimeMs * HASHING_SHARE)
  const email = canonicalEmail(attempt.email)
  const knownDevice = await findKnownDevice(deps, attempt.deviceToken, lookupKey(email))
  const scopes = knownDevice
    ? deviceScopes(email, knownDevice)
    : throttleScopes(email, attempt.client, deps.budgets)

  const claim = {
    network: turnNetwork(attempt.client),
    client: attempt.client.group,
    account: lookupKey(email),
    isKnownDevice: knownDevice !== null,
  }
  const admission = await admit(deps, claim, scopes, finishByMs)
  if (admission.kind === 'shed') return { ...admission, email }
  if (admission.kind === 'blocked') {
    const { scope, blockedUntil, lockedUserId } = admission
    return {
      kind: 'throttled',
      email,
      scope,
      retryAfterSeconds: secondsUntil(blockedUntil, clock()),
      lockedUserId,
    }
  }

  const { slot, user } = admission
  const password = matchablePassword(attempt.password)
  const check = passwords.check(password, user?.passwordHash ?? null)
  const digest = await slot.run(finishByMs(), check.job)
  if (digest === null) {
    await store.attempts.release(scopes)
    throttle.wake(scopes)
    return { kind: 'shed', email, reason: 'too-late' }
  }
  const decision = decide(user, check.matches(digest), clock())

  if (decision.kind === 'rejected') {
    const failures = await store.attempts.fail(scopes, user?.id ?? null, clock())
    throttle.wake(scopes)
    return { kind: 'rejected', email, reason: decision.reason, alarm: toAlarm(user, failures) }
  }

  const { client } = attempt
  const remembered = client.isBrowser ? deviceToRemember(deps, knownDevice) : null
  const accepted = {
    user: decision.user,
    client,
    device: remembered?.device ?? null,
    oldCookie: attempt.sessionCookie,
  }
  const session = await openSession(deps, accepted, scopes)
  throttle.wake(scopes)
  if (!session) return { kind: 'rejected', email, reason: 'changed-meanwhile', alarm: null }
  return {
    kind: 'signed-in',
    user: decision.user,
    session,
    deviceCookie: remembered?.cookie ?? null,
    rehash: toRehash(deps, decision.user, password),
  }
}

type Admission =
  | { kind: 'admitted'; slot: HashSlot; user: User | null }
  | { kind: 'shed'; reason: ShedReason }
  | Extract<Reservation, { kind: 'blocked' }>

const SCOPE_BUSY = { kind: 'shed', reason: 'scope-busy' } as const

/** Admits the attempt, if need be after waiting for a busy scope. While it waits, it holds no hash slot. */
async function admit(
  deps: LoginDeps,
  claim: HashClaim,
  scopes: ThrottleScope[],
  finishByMs: () => number,
): Promise<Admission> {
  const { throttle, hashQueue } = deps
  const waitUntilMs = performance.now() + Math.max(WAIT_MIN_MS, deps.loginTimeMs)
  let wokenIn: string | null = null
  try {
    for (;;) {
      const admission = await tryToAdmit(deps, claim, scopes, finishByMs())
      if (admission.kind !== 'busy') return admission
      const { key, capacity } = admission
      const isFirst = key === wokenIn
      const ahead = isFirst ? 0 : throttle.countWaiting(key)
      if (!hashQueue.hasTimeFor(finishByMs(), ahead, capacity)) return SCOPE_BUSY
      if (wokenIn !== null && !isFirst) throttle.wakeNext(wokenIn)
      wokenIn = null
      if (!(await throttle.waitForScope(key, waitUntilMs, isFirst))) return SCOPE_BUSY
      wokenIn = key
    }
  } finally {
    // The scope may have room for the next attempt too, or be blocked for all of them.
    if (wokenIn !== null) throttle.wakeNext(wokenIn)
  }
}

/** First a hash slot, then a reservation in every scope. */
async function tryToAdmit(
  { throttle, hashQueue }: LoginDeps,
  claim: HashClaim,
  scopes: ThrottleScope[],
  finishByMs: number,
): Promise<Admission | Extract<Reservation, { kind: 'busy' }>> {
  let slot: ReturnType<HashQueue['admit']>
  for (;;) {
    const block = throttle.recallBlock(scopes)
    if (block) return block
    slot = hashQueue.admit(claim, finishByMs)
    if (slot !== 'undecided') break
    await hashQueue.nextDecision()
  }
  if (!slot) return { kind: 'shed', reason: 'no-slot' }
  let isAdmitted = false
  try {
    const reservation = await throttle.reserve(scopes, claim.account)
    isAdmitted = reservation.kind === 'admitted'
    return reservation.kind === 'admitted' ? { ...reservation, slot } : reservation
  } finally {
    if (!isAdmitted) slot.release()
  }
}

function secondsUntil(moment: Date, now: Date): number {
  return Math.max(1, Math.ceil((moment.getTime() - now.getTime()) / 1000))
}

function toAlarm(user: User | null, failures: number) {
  return user && failures > 0 && failures % ALARM_EVERY_FAILURES === 0
    ? { userId: user.id, failures }
    : null
}

/** Replaces a hash of another cost. It runs after the answer, so that the caller does not wait for it. */
function toRehash(
  { passwords, hashQueue, store, clock }: LoginDeps,
  user: User,
  password: string | null,
) {
  if (password === null || !passwords.isOutdated(user.passwordHash)) return null
  return async () => {
    const newHash = await hashQueue.runLast(() => passwords.hash(password))
    if (newHash === null) return
    await store.users.upgradePasswordHash(user.id, user.passwordHash, newHash, clock())
  }
}
