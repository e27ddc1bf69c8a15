// The use case: one login attempt, steps 3 to 8, read downwards.
import type { Budgets } from '../domain/attempt.ts'
import { ALARMING_GUESSES } from '../domain/second-factor.ts'
import type { Store } from '../domain/store.ts'
import type { User } from '../domain/user.ts'
import { turnNetwork } from '../system/client-group.ts'
import { type AdmissionDeps, admit } from './admission.ts'
import type { LoginAttempt, LoginOutcome } from './attempt.ts'
import { type ChangeDeps, prepareChanges } from './changes.ts'
import { canonicalEmail, EMAIL_MAX_LENGTH, lookupKey, matchablePassword } from './credentials.ts'
import { decide } from './decision.ts'
import { type DeviceTokens, deviceToRemember, findKnownDevice } from './device.ts'
import { type OpenSessionDeps, openSession } from './open-session.ts'
import type { Pace } from './pace.ts'
import { deviceScopes, throttleScopes } from './scopes.ts'
import { checkSecondStep, type SecondStepDeps } from './second-step.ts'
import type { Block } from './throttle.ts'

/** Hashing may take this share of a login's time, even if a slow database has used up more than the rest. */
const HASHING_SHARE = 0.5
/** NIST SP 800-63B-4, 3.2.2 allows at most 100 consecutive failures: operators must look at the account. */
const ALARM_EVERY_FAILURES = 100
const ALARM_EVERY_GUESSES = 10
/** RFC 8176. A recovery code counts as a code of an app. */
const AMR = {
  none: ['pwd'],
  totp: ['pwd', 'otp', 'mfa'],
  'recovery-code': ['pwd', 'otp', 'mfa'],
  passkey: ['pwd', 'pop', 'mfa'],
}

type LoginDeps = OpenSessionDeps &
  AdmissionDeps &
  ChangeDeps &
  SecondStepDeps & {
    store: Pick<Store, 'attempts' | 'devices' | 'users' | 'secondFactors'>
    pace: Pace
    deviceTokens: DeviceTokens
    budgets: Budgets
    clock: () => Date
  }

export async function login(deps: LoginDeps, attempt: LoginAttempt): Promise<LoginOutcome> {
  const { pace, throttle, clock } = deps
  // A network of one owner has many addresses, but one pace.
  const network = turnNetwork(attempt.client)
  pace.arrive(network)
  const email = canonicalEmail(attempt.email)
  const name = nameOf(attempt, email)
  const now = clock()
  const block = throttle.recallByName(name, now)
  const outcome = block
    ? toThrottled(block, email, now)
    : await tryToLogIn(deps, attempt, email, name)
  if (outcome.kind === 'shed' || outcome.kind === 'throttled') await pace.beforeRefusal(network)
  return outcome
}

async function tryToLogIn(
  deps: LoginDeps,
  attempt: LoginAttempt,
  email: string,
  name: string | null,
): Promise<LoginOutcome> {
  const { store, throttle, passwords, clock } = deps
  const arrivedMs = performance.now()
  const { loginTimeMs } = deps
  /** For the first hash, and for that of a new password. */
  const finishByMs = (hashes = 1) =>
    Math.max(arrivedMs + hashes * loginTimeMs, performance.now() + loginTimeMs * HASHING_SHARE)
  const knownDevice = await findKnownDevice(deps, attempt.deviceToken, lookupKey(email))
  const scopes = knownDevice
    ? deviceScopes(email, knownDevice)
    : throttleScopes(email, attempt.client, deps.budgets)

  const claim = {
    network: turnNetwork(attempt.client),
    client: attempt.client.group,
    account: lookupKey(email),
    isKnownDevice: knownDevice !== null,
    name,
  }
  const admission = await admit(deps, claim, scopes, finishByMs)
  if (admission.kind === 'shed') return { ...admission, email }
  if (admission.kind === 'blocked') return toThrottled(admission, email, clock())

  const { slot, user } = admission
  const password = matchablePassword(attempt.password)
  const check = passwords.check(password, user?.passwordHash ?? null)
  const [digest, step] = await Promise.all([
    slot.run(finishByMs(), check.job),
    checkSecondStep(deps, user, attempt.proof, knownDevice !== null),
  ])
  if (digest === null) {
    await store.attempts.release(scopes)
    throttle.wake(scopes)
    return { kind: 'shed', email, reason: 'too-late' }
  }
  const decision = decide(user, check.matches(digest), step, clock())

  if (decision.kind === 'rejected') {
    const { reason, failed } = decision
    const userId = user?.id ?? null
    const { failures, guesses } = await store.attempts.fail(scopes, userId, clock(), failed)
    throttle.wake(scopes)
    return {
      kind: 'rejected',
      email,
      reason,
      alarm: toAlarm(user, failures),
      passwordKnown: toPasswordKnown(user, failed.guessesBelow, guesses),
      codeOffsetSeconds: failed.codeOffsetSeconds,
    }
  }

  const preparing = await prepareChanges(deps, attempt, decision, slot, () => finishByMs(2))
  if (preparing.kind !== 'ready') {
    const { ip, userAgent } = attempt.client
    if (preparing.kind === 'shed') await store.attempts.release(scopes)
    else if (preparing.kind === 'unfit-password' || preparing.kind === 'unfit-factor') {
      await store.attempts.pass(scopes, { userId: preparing.userId, at: clock(), ip, userAgent })
    } else await store.attempts.pass(scopes)
    throttle.wake(scopes)
    return preparing.kind === 'shed' ? { ...preparing, email } : preparing
  }

  const { newHash, factors, recoveryCodes } = preparing
  const { client } = attempt
  const remembered = client.isBrowser ? deviceToRemember(deps, knownDevice) : null
  const keptDeviceId = knownDevice?.id ?? remembered?.device.id ?? null
  const proof = decision.step.kind === 'proved' ? decision.step.proof : null
  // A user that adds a factor has just used it.
  const added = factors?.kind === 'set' ? factors.factor.kind : 'none'
  const accepted = {
    user: decision.user,
    proof,
    client,
    amr: AMR[proof?.used.kind ?? added],
    device: remembered?.device ?? null,
    oldCookie: attempt.sessionCookie,
    change: newHash !== null || factors ? { newHash, factors, keptDeviceId } : null,
  }
  const session = await openSession(deps, accepted, scopes)
  throttle.wake(scopes)
  if (!session) {
    const nothing = { alarm: null, passwordKnown: null, codeOffsetSeconds: null }
    return { kind: 'rejected', email, reason: 'changed-meanwhile', ...nothing }
  }
  return {
    kind: 'signed-in',
    user: decision.user,
    session,
    deviceCookie: remembered?.cookie ?? null,
    isPasswordChanged: newHash !== null,
    secondFactor: {
      isOn: factors?.kind === 'remove' ? !factors.isLast : (factors ?? proof) !== null,
      change: factors?.kind ?? null,
      recoveryCodes,
      isRecoveryCodeUsed: proof?.used.kind === 'recovery-code',
    },
    rehash: newHash === null ? toRehash(deps, decision.user, password) : null,
  }
}

/**
 * All attempts by one client at one email have the same scopes, except those with a device cookie. A longer email than
 * any user has is not worth the memory.
 */
function nameOf({ client, deviceToken }: LoginAttempt, email: string): string | null {
  const hasName = deviceToken === null && email.length <= EMAIL_MAX_LENGTH
  return hasName ? `${client.group} ${email}` : null
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

function toPasswordKnown(user: User | null, guessesBelow: number, guesses: number) {
  // There are none if the user was deleted meanwhile.
  const isCounted = user !== null && user.failedSecondSteps < guessesBelow && guesses > 0
  return isCounted && (guesses === ALARMING_GUESSES || guesses % ALARM_EVERY_GUESSES === 0)
    ? { userId: user.id, guesses }
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
