// Step 3 of a login: a hash slot and a reservation, or the reason why there is none.
import type { Reservation, ThrottleScope } from '../domain/attempt.ts'
import type { User } from '../domain/user.ts'
import type { HashClaim, HashQueue, HashSlot } from '../hashing/hash-queue.ts'
import type { Throttle } from './throttle.ts'

/** The limit of the wait for a busy scope is at least this long. */
const WAIT_MIN_MS = 2_000

export type AdmissionDeps = {
  throttle: Throttle
  hashQueue: HashQueue
  /** A login is shed if waiting for its hash would make it take longer. */
  loginTimeMs: number
}

type Claim = HashClaim & {
  /** All attempts with this name have the same scopes. Null if it has none. */
  name: string | null
}

/** `too-late`: it had a hash slot, but gave way to others or its turn came too late. */
export type ShedReason = 'no-slot' | 'scope-busy' | 'too-late'

type Admission =
  | { kind: 'admitted'; slot: HashSlot; user: User | null }
  | { kind: 'shed'; reason: ShedReason }
  | Extract<Reservation, { kind: 'blocked' }>

const SCOPE_BUSY = { kind: 'shed', reason: 'scope-busy' } as const

/** Admits the attempt, if need be after waiting for a busy scope. While it waits, it holds no hash slot. */
export async function admit(
  deps: AdmissionDeps,
  claim: Claim,
  scopes: ThrottleScope[],
  finishByMs: () => number,
): Promise<Admission> {
  const { throttle, hashQueue } = deps
  const waitUntilMs = performance.now() + Math.max(WAIT_MIN_MS, deps.loginTimeMs)
  /** The hash before the wait: a password that a parallel attempt has replaced since was right. */
  let hashBefore: string | undefined
  let wokenIn: string | null = null
  try {
    for (;;) {
      const admission = await tryToAdmit(deps, claim, scopes, finishByMs())
      if (admission.kind === 'admitted') {
        const { user } = admission
        return {
          ...admission,
          user: user && { ...user, passwordHash: hashBefore ?? user.passwordHash },
        }
      }
      if (admission.kind !== 'busy') return admission
      hashBefore ??= admission.user?.passwordHash
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
  { throttle, hashQueue }: AdmissionDeps,
  claim: Claim,
  scopes: ThrottleScope[],
  finishByMs: number,
): Promise<Admission | Extract<Reservation, { kind: 'busy' }>> {
  let slot: ReturnType<HashQueue['admit']>
  for (;;) {
    const block = throttle.recallBlock(scopes, claim.name)
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
