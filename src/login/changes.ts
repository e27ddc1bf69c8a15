// What a login changes besides opening a session: a new password, whose hash is a second turn of the same claim, and the
// second factors. Judged after password and proof were verified.
import { randomUUID } from 'node:crypto'
import type { CredentialsChange } from '../domain/attempt.ts'
import type { FactorsChange } from '../domain/second-factor.ts'
import type { HashSlot } from '../hashing/hash-queue.ts'
import { encrypt } from '../keys/encryption.ts'
import type { Keys } from '../keys/key-set.ts'
import { type DemandingRoles, demandsSecondFactor } from '../session/demanded-factor.ts'
import type { ShedReason } from './admission.ts'
import type { FactorFlaw, FactorRequest, LoginAttempt, LoginOutcome } from './attempt.ts'
import type { Verified } from './decision.ts'
import { findPasswordFlaw } from './password-rules.ts'
import type { Passwords } from './passwords.ts'
import { digestOfRecoveryCode, makeRecoveryCodes } from './recovery-codes.ts'
import { factorContext, type SecondStep } from './second-step.ts'
import { findCode, parseSecret } from './totp.ts'

export type ChangeDeps = {
  passwords: Passwords
  passwordRules: { minLength: number; brandName: string }
  secondFactorRoles: DemandingRoles
  keys: Keys
  clock: () => Date
}

type Asked = Pick<LoginAttempt, 'password' | 'newPassword' | 'factorRequest'>

type Changes =
  /** Nothing changes if `newHash` and `factors` are null. `recoveryCodes` are new ones. */
  | ({ kind: 'ready'; recoveryCodes: string[] | null } & Omit<CredentialsChange, 'keptDeviceId'>)
  | Extract<
      LoginOutcome,
      { kind: 'change-required' | 'second-factor-required' | 'unfit-password' | 'unfit-factor' }
    >
  | { kind: 'shed'; reason: ShedReason }

export async function prepareChanges(
  deps: ChangeDeps,
  { password, newPassword, factorRequest }: Asked,
  { user, step }: Verified,
  slot: HashSlot,
  finishByMs: () => number,
): Promise<Changes> {
  const { id: userId, email, name } = user
  const isDemanded = demandsSecondFactor(deps.secondFactorRoles, user.role)
  const hasSecondFactor = step.kind === 'proved'
  const isFactorRequired = isDemanded && !hasSecondFactor
  if (user.temporaryUntil !== null && newPassword === undefined) {
    return { kind: 'change-required', userId, hasSecondFactor, isFactorRequired }
  }
  if (isFactorRequired && factorRequest?.kind !== 'set-totp') {
    return { kind: 'second-factor-required', userId }
  }
  const prepared = factorRequest
    ? prepareFactors(deps, factorRequest, userId, step, isDemanded)
    : { factors: null, recoveryCodes: null }
  if ('field' in prepared) return { kind: 'unfit-factor', userId, flaw: prepared }
  if (newPassword === undefined) return { kind: 'ready', newHash: null, ...prepared }

  // The route has judged what does not depend on the user. Before now, this would reveal the name.
  const context = { ...deps.passwordRules, ...{ email, name, current: password } }
  const flaw = await findPasswordFlaw(newPassword, context)
  if (flaw) return { kind: 'unfit-password', userId, flaw }
  const { job, toHash } = deps.passwords.prepare(newPassword)
  const digest = await slot.run(finishByMs(), job)
  if (!digest) return { kind: 'shed', reason: 'too-late' }
  return { kind: 'ready', newHash: toHash(digest), ...prepared }
}

type PreparedFactors = { factors: FactorsChange; recoveryCodes: string[] | null }

function prepareFactors(
  { keys, clock }: Pick<ChangeDeps, 'keys' | 'clock'>,
  request: FactorRequest,
  userId: string,
  step: SecondStep,
  isDemanded: boolean,
): PreparedFactors | FactorFlaw {
  const totpId = step.kind === 'proved' ? step.totpId : null
  if (request.kind === 'remove-totp') {
    if (totpId === null) return { field: 'secret', reason: 'no_second_factor' }
    if (isDemanded) return { field: 'secret', reason: 'demanded' }
    return { factors: { kind: 'remove', id: totpId }, recoveryCodes: null }
  }
  const recoveryCodes = makeRecoveryCodes()
  const recoveryDigests = recoveryCodes.map(digestOfRecoveryCode)
  if (request.kind === 'new-recovery-codes') {
    if (step.kind !== 'proved') return { field: 'recoveryCodes', reason: 'no_second_factor' }
    return { factors: { kind: request.kind, recoveryDigests }, recoveryCodes }
  }
  const now = clock()
  const secret = parseSecret(request.secret)
  if (!secret) return { field: 'secret', reason: 'malformed' }
  const code = findCode(secret, request.newOtp, now)
  if (!code?.isAccepted) return { field: 'newOtp', reason: 'wrong_code' }
  const key = keys.encryptionAt(now)
  if (!key) throw new Error('a route has let a second factor through without a key for it')
  const id = randomUUID()
  const encrypted = encrypt(key, secret, factorContext(userId, id))
  const { usedTo } = code
  return {
    factors: { kind: request.kind, id, secret: encrypted, usedTo, recoveryDigests },
    recoveryCodes,
  }
}
