// Step 3 of a login: a hash slot and a reservation, or the reason why there is none.
import type { Reservation, ThrottleScope } from '../domain/attempt.ts'
import type { User } from '../domain/user.ts'
import type { Claim } from './fair-order.ts'
import type { HashQueue, HashSlot } from './hash-queue.ts'
import type { Throttle } from './throttle.ts'

export type AdmissionDeps = { throttle: Throttle; hashQueue: HashQueue; clock: () => Date }

/** `too-late`: it had a hash slot, but gave way to others or its turn came too late. */
export type ShedReason = 'no-slot' | 'scope-busy' | 'too-late'

type Admission =
  | { kind: 'admitted'; slot: HashSlot; user: User | null }
  | { kind: 'shed'; reason: ShedReason }
  | Extract<Reservation, { kind: 'blocked' }>

/** Admits the attempt, if need be after waiting for a busy scope. While it waits, it holds no hash slot. */
export async function admit(
  deps: AdmissionDeps,
  claim: Claim,
  scopes: ThrottleScope[],
  waitUntilMs: number,
): Promise<Admission> {
  let admission = await tryToAdmit(deps, claim, scopes)
  if (admission.kind !== 'busy') return admission
  // The hash before the wait: a password that a parallel attempt has replaced since was right.
  const hashBefore = admission.user?.passwordHash
  while (admission.kind === 'busy') {
    const { key } = admission
    const place = deps.throttle.joinLine(key)
    try {
      do {
        if (!(await place?.turn(waitUntilMs))) return { kind: 'shed', reason: 'scope-busy' }
        admission = await tryToAdmit(deps, claim, scopes)
      } while (admission.kind === 'busy' && admission.key === key)
    } finally {
      place?.leave()
    }
  }
  if (admission.kind !== 'admitted' || !admission.user || !hashBefore) return admission
  return { ...admission, user: { ...admission.user, passwordHash: hashBefore } }
}

/** First a hash slot, then a reservation in every scope. */
async function tryToAdmit(
  { throttle, hashQueue, clock }: AdmissionDeps,
  claim: Claim,
  scopes: ThrottleScope[],
): Promise<Admission | Extract<Reservation, { kind: 'busy' }>> {
  const block = throttle.recallBlock(scopes)
  if (block) return block
  const slot = hashQueue.admit(claim)
  if (!slot) return { kind: 'shed', reason: 'no-slot' }
  let isAdmitted = false
  try {
    const reservation = await throttle.reserve(scopes, claim.account, clock())
    isAdmitted = reservation.kind === 'admitted'
    return reservation.kind === 'admitted' ? { ...reservation, slot } : reservation
  } finally {
    if (!isAdmitted) slot.release()
  }
}
