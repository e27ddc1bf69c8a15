// Why can this user not log in? Everything that decides about it, and the verdict.
import { parseHash } from '../../bcrypt/hash-text.ts'
import { GUESSES, type ListedFactors } from '../../domain/second-factor.ts'
import type { User } from '../../domain/user.ts'
import { isReachable } from '../../login/credentials.ts'
import { deviceScopes } from '../../login/scopes.ts'
import { demandsSecondFactor } from '../../session/demanded-factor.ts'
import type { CountedClient } from '../../system/client-group.ts'
import type { AdminDeps } from './deps.ts'
import {
  latestOf,
  type ShownScope,
  type ShownThrottle,
  showThrottle,
  toShownScope,
} from './read-throttle.ts'
import { type ShownUser, toShownUser } from './user.ts'

/** What the right password and code would lead to, on a device that is not known. */
export type Verdict =
  | { kind: 'can-log-in' }
  | { kind: 'inactive' }
  | { kind: 'locked'; until: Date }
  /** An email that was inserted by SQL, in a form that logins do not look up. */
  | { kind: 'unreachable-email' }
  | { kind: 'unusable-hash' }
  | { kind: 'must-wait'; until: Date; because: ShownScope }
  | { kind: 'temporary-password-ended'; at: Date }
  | { kind: 'must-change-password'; until: Date }
  | { kind: 'must-set-up-second-factor' }
  /** Wrong codes came with the right password, so that a code is accepted from known devices only, or not at all. */
  | { kind: 'only-known-devices' }
  | { kind: 'too-many-guesses' }

export type Explanation = Awaited<ReturnType<typeof explainUser>>

/** Whether the right password gets an answer of its own, from a client that need not wait. */
export function isAdmitted(kind: Verdict['kind']): boolean {
  return ['can-log-in', 'must-change-password', 'must-set-up-second-factor'].includes(kind)
}

/** If a client is given, says also whether a login from there would have to wait. */
export async function explainUser(deps: AdminDeps, found: User, client: CountedClient | null) {
  const { sessions } = deps.store
  const now = deps.clock()
  const throttle = await showThrottle(deps, { email: found.email, client }, now)
  /** Without a cost, the hash cannot be evaluated. */
  const hashCost = parseHash(found.passwordHash)?.cost ?? null
  const user = {
    ...toShownUser(found, now),
    hashCost,
    ...(await deps.store.secondFactors.list(found.id)),
    isSecondFactorDemanded: demandsSecondFactor(deps.secondFactorRoles, found.role),
  }
  return {
    ...user,
    liveSessions: await sessions.countLive(found.id, now),
    /** Null if none is known. */
    lastLoginAt: (await sessions.findLastLogin(found.id))?.at ?? null,
    devices: await listDevices(deps, found, now),
    client: client?.ip ?? null,
    verdict: decideVerdict(user, throttle, now),
    throttle,
  }
}

/** The known devices of a user, with their failures. */
export async function listDevices(
  { store }: Pick<AdminDeps, 'store'>,
  { id, email }: User,
  now: Date,
) {
  const devices = await store.devices.list(id, now)
  const scopes = await store.throttle.read(
    devices.flatMap(device => deviceScopes(email, device)),
    now,
  )
  return devices.flatMap((device, i) => {
    const state = scopes[i]
    if (!state) return []
    const { failures, budget, waitsUntil } = toShownScope(state, now)
    return [{ ...device, failures, budget, waitsUntil }]
  })
}

/** A login is throttled before it looks at the user. Here the user comes first: waiting does not help an inactive one. */
function decideVerdict(
  user: ShownUser & ListedFactors & { hashCost: number | null; isSecondFactorDemanded: boolean },
  { scopes }: ShownThrottle,
  now: Date,
): Verdict {
  if (!isReachable(user.email)) return { kind: 'unreachable-email' }
  if (user.state === 'inactive') return { kind: 'inactive' }
  if (user.state === 'locked' && user.lockedUntil) {
    return { kind: 'locked', until: user.lockedUntil }
  }
  if (user.hashCost === null) return { kind: 'unusable-hash' }
  const { temporaryUntil } = user
  if (temporaryUntil && temporaryUntil <= now) {
    return { kind: 'temporary-password-ended', at: temporaryUntil }
  }
  const hasFactor = user.factors.length > 0
  const guesses = hasFactor ? user.failedSecondSteps : 0
  if (guesses >= GUESSES.knownDevice) return { kind: 'too-many-guesses' }
  if (guesses >= GUESSES.unknownDevice) return { kind: 'only-known-devices' }
  const until = latestOf(scopes.flatMap(({ waitsUntil }) => waitsUntil ?? []))
  const because = scopes.find(({ waitsUntil }) => waitsUntil === until)
  if (until && because) return { kind: 'must-wait', until, because }
  if (temporaryUntil) return { kind: 'must-change-password', until: temporaryUntil }
  const lacksFactor = user.isSecondFactorDemanded && !hasFactor
  return { kind: lacksFactor ? 'must-set-up-second-factor' : 'can-log-in' }
}
