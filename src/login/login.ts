// The use case: one login attempt, steps 3 to 8, read downwards.
import type { Budgets, ScopeName } from '../domain/attempt.ts'
import type { Store } from '../domain/store.ts'
import type { User } from '../domain/user.ts'
import { turnNetwork } from '../system/client-group.ts'
import { type AdmissionDeps, admit, type ShedReason } from './admission.ts'
import { canonicalEmail, lookupKey, matchablePassword } from './credentials.ts'
import { decide, type RejectionReason } from './decision.ts'
import {
  type DeviceCookie,
  type DeviceTokens,
  deviceToRemember,
  findKnownDevice,
} from './device.ts'
import { type NewHashDeps, prepareNewHash } from './new-hash.ts'
import { type OpenedSession, type OpenSessionDeps, openSession } from './open-session.ts'
import type { PasswordFlaw } from './password-rules.ts'
import { deviceScopes, throttleScopes } from './scopes.ts'
import type { Block } from './throttle.ts'

/** A login may wait this share of its time for a busy scope. */
const WAITING_SHARE = 0.5
/** Hashing may take this share of it, even if a slow database has used up more than the rest. */
const HASHING_SHARE = 0.5
/** NIST SP 800-63B-4, 3.2.2 allows at most 100 consecutive failures: operators must look at the account. */
const ALARM_EVERY_FAILURES = 100

export type LoginAttempt = {
  email: string
  password: string
  /** If it is given, the login also replaces the password by this one. */
  newPassword?: string
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
      isPasswordChanged: boolean
      /** Replaces a hash of another cost, after the answer; null if that is not necessary. */
      rehash: (() => Promise<void>) | null
    }
  /** The password is right, but temporary: it is only good for setting another one. */
  | { kind: 'change-required'; userId: string }
  /** The password is right, but it was not replaced: the new one is not fit for this user. */
  | { kind: 'unfit-password'; userId: string; flaw: PasswordFlaw }
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

type LoginDeps = OpenSessionDeps &
  AdmissionDeps &
  NewHashDeps & {
    store: Pick<Store, 'devices' | 'users'>
    deviceTokens: DeviceTokens
    budgets: Budgets
    /** A login is shed if waiting for its scope and its hash would make it take longer. */
    loginTimeMs: number
  }

export async function login(deps: LoginDeps, attempt: LoginAttempt): Promise<LoginOutcome> {
  const { throttle, passwords, clock, loginTimeMs } = deps
  const { client } = attempt
  const arrivedMs = performance.now()
  const email = canonicalEmail(attempt.email)
  const account = lookupKey(email)
  const knownDevice = await findKnownDevice(deps, attempt.deviceToken, account)
  const scopes = knownDevice
    ? deviceScopes(email, knownDevice)
    : throttleScopes(email, client, deps.budgets)

  const network = turnNetwork(client)
  const claim = { network, client: client.group, account, isKnownDevice: knownDevice !== null }
  const waitUntilMs = arrivedMs + loginTimeMs * WAITING_SHARE
  const admission = await admit(deps, claim, scopes, waitUntilMs)
  if (admission.kind === 'shed') return { ...admission, email }
  if (admission.kind === 'blocked') return toThrottled(admission, email, clock())

  const { slot, user } = admission
  const password = matchablePassword(attempt.password)
  const check = passwords.check(password, user?.passwordHash ?? null)
  const hashedByMs = Math.max(
    arrivedMs + loginTimeMs,
    performance.now() + loginTimeMs * HASHING_SHARE,
  )
  const digest = await slot.run(hashedByMs, check.job)
  if (digest === null) {
    await throttle.release(scopes)
    return { kind: 'shed', email, reason: 'too-late' }
  }
  const decision = decide(user, check.matches(digest), clock())
  if (decision.kind === 'rejected') {
    const failures = await throttle.fail(scopes, user?.id ?? null, clock())
    return { kind: 'rejected', email, reason: decision.reason, alarm: toAlarm(user, failures) }
  }

  // For a second hash, the login gets as much time again.
  const changedByMs = hashedByMs + loginTimeMs
  const preparing = await prepareNewHash(deps, attempt, decision.user, slot, changedByMs)
  if (preparing.kind === 'shed') {
    await throttle.release(scopes)
    return { ...preparing, email }
  }
  if (preparing.kind === 'change-required') {
    await throttle.pass(scopes)
    return preparing
  }
  if (preparing.kind === 'unfit-password') {
    const { ip, userAgent } = client
    await throttle.pass(scopes, { userId: preparing.userId, at: clock(), ip, userAgent })
    return preparing
  }

  const { newHash } = preparing
  const remembered = client.isBrowser ? deviceToRemember(deps, knownDevice) : null
  const device = remembered?.device ?? null
  const keptDeviceId = knownDevice?.id ?? device?.id ?? null
  const change = newHash === null ? null : { newHash, keptDeviceId }
  const accepted = { user: decision.user, client, device, oldCookie: attempt.sessionCookie, change }
  const session = await openSession(deps, accepted, scopes)
  if (!session) return { kind: 'rejected', email, reason: 'changed-meanwhile', alarm: null }
  return {
    kind: 'signed-in',
    user: decision.user,
    session,
    deviceCookie: remembered?.cookie ?? null,
    isPasswordChanged: newHash !== null,
    rehash: newHash === null ? toRehash(deps, decision.user, password) : null,
  }
}

function toThrottled({ scope, blockedUntil, lockedUserId }: Block, email: string, now: Date) {
  const retryAfterSeconds = Math.max(1, Math.ceil((blockedUntil.getTime() - now.getTime()) / 1000))
  return { kind: 'throttled' as const, email, scope, retryAfterSeconds, lockedUserId }
}

function toAlarm(user: User | null, failures: number) {
  return user && failures > 0 && failures % ALARM_EVERY_FAILURES === 0
    ? { userId: user.id, failures }
    : null
}

/** Replaces a hash of another cost, after the answer. While others wait, that is left to a later login. */
function toRehash(
  { passwords, hashQueue, store, clock }: LoginDeps,
  user: User,
  password: string | null,
) {
  if (password === null || !passwords.isOutdated(user.passwordHash)) return null
  return async () => {
    if (hashQueue.depth() > 0) return
    const newHash = await passwords.hash(password)
    await store.users.upgradePasswordHash(user.id, user.passwordHash, newHash, clock())
  }
}
