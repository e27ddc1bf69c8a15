// What a login changes besides opening a session: a new password, whose hash is a second turn of the same claim, and the
// second factors. Judged after password and proof were verified.
import { randomUUID } from 'node:crypto'
import type { CredentialsChange } from '../domain/attempt.ts'
import { type FactorsChange, MAX_PASSKEYS } from '../domain/second-factor.ts'
import type { Store } from '../domain/store.ts'
import type { HashSlot } from '../hashing/hash-queue.ts'
import { encrypt } from '../keys/encryption.ts'
import type { Keys } from '../keys/key-set.ts'
import { type DemandingRoles, demandsSecondFactor } from '../session/demanded-factor.ts'
import type { ShedReason } from './admission.ts'
import type { FactorFlaw, FactorRequest, LoginAttempt, LoginOutcome } from './attempt.ts'
import type { Verified } from './decision.ts'
import { checkNewPasskey, type PasskeyRules } from './passkey.ts'
import { findPasswordFlaw } from './password-rules.ts'
import type { Passwords } from './passwords.ts'
import { digestOfRecoveryCode, makeRecoveryCodes } from './recovery-codes.ts'
import { factorContext } from './second-step.ts'
import { findCode, parseSecret } from './totp.ts'

export type ChangeDeps = {
  store: Pick<Store, 'secondFactors'>
  passwords: Passwords
  passwordRules: { minLength: number; brandName: string }
  secondFactorRoles: DemandingRoles
  keys: Keys
  passkeys: PasskeyRules
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
  if (isFactorRequired && !isSetUp(factorRequest?.kind)) {
    return { kind: 'second-factor-required', userId }
  }
  const prepared = factorRequest
    ? await prepareFactors(deps, factorRequest, userId, isDemanded)
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

/** Whether it adds a factor. */
export function isSetUp(kind: FactorRequest['kind'] | undefined): boolean {
  return kind === 'set-totp' || kind === 'add-passkey'
}

type PreparedFactors = { factors: FactorsChange; recoveryCodes: string[] | null }

/** If the factors change after this read, the login fails, because it compares their version. */
async function prepareFactors(
  { store, keys, passkeys, clock }: ChangeDeps,
  request: FactorRequest,
  userId: string,
  isDemanded: boolean,
): Promise<PreparedFactors | FactorFlaw> {
  const { factors } = await store.secondFactors.list(userId)
  const now = clock()
  const recoveryCodes = makeRecoveryCodes()
  const recoveryDigests = recoveryCodes.map(digestOfRecoveryCode)
  const id = randomUUID()
  switch (request.kind) {
    case 'remove': {
      const field = request.id === null ? 'secret' : 'remove'
      const factor = factors.find(({ id, kind }) =>
        request.id === null ? kind === 'totp' : id === request.id,
      )
      if (!factor) return { field, reason: 'no_second_factor' }
      const isLast = factors.length === 1
      if (isLast && isDemanded) return { field, reason: 'demanded' }
      return { factors: { kind: 'remove', id: factor.id, isLast }, recoveryCodes: null }
    }
    case 'new-recovery-codes':
      if (factors.length === 0) return { field: 'recoveryCodes', reason: 'no_second_factor' }
      return { factors: { kind: request.kind, recoveryDigests }, recoveryCodes }
    case 'set-totp': {
      const secret = parseSecret(request.secret)
      if (!secret) return { field: 'secret', reason: 'malformed' }
      const code = findCode(secret, request.newOtp, now)
      if (!code?.isAccepted) return { field: 'newOtp', reason: 'wrong_code' }
      const key = keys.encryptionAt(now)
      if (!key) throw new Error('a route has let a second factor through without a key for it')
      const encrypted = encrypt(key, secret, factorContext(userId, id))
      const app = { kind: 'totp', name: null, credentialId: null, rpId: null } as const
      const factor = { ...app, id, secret: encrypted, usedTo: code.usedTo }
      return { factors: { kind: 'set', factor, recoveryDigests }, recoveryCodes }
    }
    case 'add-passkey': {
      const { id: credentialId, name, publicKey: secret } = request.passkey
      const checked = checkNewPasskey(passkeys, request.passkey, now)
      if ('flaw' in checked) return { field: 'newPasskey', reason: `passkey_${checked.flaw}` }
      const ids = factors.flatMap(factor => factor.credentialId ?? [])
      if (ids.includes(credentialId)) return { field: 'newPasskey', reason: 'passkey_known' }
      if (ids.length >= MAX_PASSKEYS) return { field: 'newPasskey', reason: 'too_many_passkeys' }
      const passkey = { kind: 'passkey', name, credentialId, rpId: passkeys.rpId } as const
      // What it has signed before, when it was a factor already, is used up.
      const factor = { ...passkey, id, secret, usedTo: now }
      return factors.length === 0
        ? { factors: { kind: 'set', factor, recoveryDigests }, recoveryCodes }
        : { factors: { kind: 'set', factor, recoveryDigests: null }, recoveryCodes: null }
    }
    default:
      return request satisfies never
  }
}
