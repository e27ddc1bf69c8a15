// The use case: one attempt, read downwards.
import { type OpenedSession, openSession, type SessionDeps } from '../session/open.ts'
import type { Reservation, ScopeName, Store, ThrottleScope, User } from '../storage/store.ts'
import { canonicalEmail, lookupKey, matchablePassword } from './credentials.ts'
import { decide, type Rejection } from './decision.ts'
import { deviceToRemember, findKnownDevice } from './device.ts'
import type { DeviceTokens } from './device-token.ts'
import type { HashQueue, Place } from './hash-queue.ts'
import type { Passwords } from './passwords.ts'
import { type Budgets, deviceScopes, type Throttle, throttleScopes } from './throttle.ts'

/** Hashing has this share of a login's time, also where a slow database has taken the rest already. */
const HASHING_SHARE = 0.5
/** An attempt waits for others of its scope at least this long. */
const WAIT_MIN_MS = 2_000
/** NIST SP 800-63B-4, 3.2.2: so many failures in a row on one account deserve a human's look. */
const ALARM_EVERY_FAILURES = 100

export type LoginAttempt = {
  email: string
  password: string
  client: Client
  /** What the caller sent as its device cookie. */
  deviceToken: string | null
  /** What the caller sent as its session cookie: a success ends that session. */
  sessionCookie: string | null
}

export type Client = {
  ip: string
  /** What a client's budget is counted by: an IPv4 address, or the network of an IPv6 one. */
  group: string
  /** The larger network of an IPv6 client, which one subscriber may own as a whole; null for IPv4. */
  network: string | null
  userAgent: string
  /** It keeps cookies, so it gets some. */
  isBrowser: boolean
}

export type LoginOutcome =
  | {
      kind: 'signed-in'
      user: User
      session: OpenedSession
      /** A new device cookie; null if the caller takes none or has one. */
      deviceToken: string | null
      rehash: (() => Promise<void>) | null
    }
  | {
      kind: 'rejected'
      email: string
      reason: Rejection
      alarm: { userId: string; failures: number } | null
    }
  | {
      kind: 'throttled'
      email: string
      scope: ScopeName
      retryAfterSeconds: number
      lockedUserId: string | null
    }
  | { kind: 'shed'; email: string }

export type LoginDeps = SessionDeps & {
  store: Store
  throttle: Throttle
  passwords: Passwords
  hashQueue: HashQueue
  deviceTokens: DeviceTokens
  budgets: Budgets
  maxSessionsPerUser: number
  /** What a login may take; one whose hash would make it take longer is shed, uncounted. */
  loginTimeMs: number
  clock: () => Date
}

export async function login(deps: LoginDeps, attempt: LoginAttempt): Promise<LoginOutcome> {
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

  const admission = await admit(deps, email, scopes, knownDevice !== null, finishByMs)
  if (admission.kind === 'shed') return { kind: 'shed', email }
  if (admission.kind === 'refused') {
    const { scope, blockedUntil, lockedUserId } = admission
    return {
      kind: 'throttled',
      email,
      scope,
      retryAfterSeconds: secondsUntil(blockedUntil, clock()),
      lockedUserId,
    }
  }

  const { place, user } = admission
  const password = matchablePassword(attempt.password)
  const passwordMatches = await place.run(finishByMs(), () =>
    passwords.verify(password, user?.passwordHash ?? null),
  )
  if (passwordMatches === null) {
    await store.releaseAttempt(scopes)
    throttle.settled(scopes)
    return { kind: 'shed', email }
  }
  const decision = decide(user, passwordMatches, clock())

  if (decision.kind === 'rejected') {
    const failures = await store.settleFailure(scopes, user?.id ?? null, clock())
    throttle.settled(scopes)
    return { kind: 'rejected', email, reason: decision.reason, alarm: toAlarm(user, failures) }
  }

  const { client } = attempt
  const remembered = client.isBrowser ? deviceToRemember(deps, knownDevice) : null
  const session = await openSession(deps, {
    user: decision.user,
    client,
    device: remembered?.device ?? null,
    oldCookie: attempt.sessionCookie,
    maxSessionsPerUser: deps.maxSessionsPerUser,
    scopes,
  })
  throttle.settled(scopes)
  if (!session) return { kind: 'rejected', email, reason: 'changed-meanwhile', alarm: null }
  return {
    kind: 'signed-in',
    user: decision.user,
    session,
    deviceToken: remembered?.newToken ?? null,
    rehash: toRehash(deps, decision.user, password),
  }
}

type Admission =
  | { kind: 'admitted'; place: Place; user: User | null }
  | { kind: 'shed' }
  | Extract<Reservation, { kind: 'refused' }>

/** Asks, and waits its turn in a scope that is full. Who waits keeps nobody from hashing. */
async function admit(
  deps: LoginDeps,
  email: string,
  scopes: ThrottleScope[],
  isKnownDevice: boolean,
  finishByMs: () => number,
): Promise<Admission> {
  const { throttle, hashQueue } = deps
  const waitUntilMs = performance.now() + Math.max(WAIT_MIN_MS, deps.loginTimeMs)
  let turnIn: string | null = null
  try {
    for (;;) {
      const admission = await tryToAdmit(deps, email, scopes, isKnownDevice, finishByMs())
      if (admission.kind !== 'busy') return admission
      const { key, places } = admission
      const isFirst = key === turnIn
      const before = isFirst ? 0 : throttle.countWaiting(key)
      if (!hashQueue.hasTimeFor(finishByMs(), before, places)) return { kind: 'shed' }
      if (turnIn !== null && !isFirst) throttle.wakeNext(turnIn)
      turnIn = null
      if (!(await throttle.waitForPlace(key, waitUntilMs, isFirst))) return { kind: 'shed' }
      turnIn = key
    }
  } finally {
    // There may be more places, or a refusal for all.
    if (turnIn !== null) throttle.wakeNext(turnIn)
  }
}

/** A place to be hashed in, then one in every scope. */
async function tryToAdmit(
  { throttle, hashQueue }: LoginDeps,
  email: string,
  scopes: ThrottleScope[],
  isKnownDevice: boolean,
  finishByMs: number,
): Promise<Admission | Extract<Reservation, { kind: 'busy' }>> {
  const refusal = throttle.recallRefusal(scopes)
  if (refusal) return refusal
  const place = await hashQueue.enter(finishByMs, isKnownDevice ? email : null)
  if (!place) return { kind: 'shed' }
  const reservation = await throttle.reserve(scopes, lookupKey(email)).catch(place.abandon)
  if (reservation.kind === 'admitted') return { ...reservation, place }
  place.leave()
  return reservation
}

function secondsUntil(moment: Date, now: Date): number {
  return Math.max(1, Math.ceil((moment.getTime() - now.getTime()) / 1000))
}

function toAlarm(user: User | null, failures: number) {
  return user && failures > 0 && failures % ALARM_EVERY_FAILURES === 0
    ? { userId: user.id, failures }
    : null
}

/** A hash of another cost is made anew, after the answer: the caller need not wait for it. */
function toRehash(
  { passwords, hashQueue, store, clock }: LoginDeps,
  user: User,
  password: string | null,
) {
  if (password === null || !passwords.isOutdated(user.passwordHash)) return null
  return async () => {
    const newHash = await hashQueue.runLast(() => passwords.hash(password))
    if (newHash === null) return
    await store.upgradePasswordHash(user.id, user.passwordHash, newHash, clock())
  }
}
