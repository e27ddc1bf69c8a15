// The second step of a login. What its proof is compared with is read, decrypted and computed while the hash runs, for
// every attempt: where there is no user or no second factor, with a decoy.
import { randomBytes } from 'node:crypto'
import {
  type FailedStep,
  GUESSES,
  NO_GUESS,
  type StoredProofs,
  USED_AHEAD_MAX_MS,
  type UsedProof,
} from '../domain/second-factor.ts'
import type { Store } from '../domain/store.ts'
import type { User } from '../domain/user.ts'
import { decrypt, encrypt, keyIdOf } from '../keys/encryption.ts'
import type { EncryptionKey, Keys } from '../keys/key-set.ts'
import { digestOfRecoveryCode } from './recovery-codes.ts'
import { findCode } from './totp.ts'

/** What proves the second step: a code of an app, or a recovery code. */
export type Proof = { otp: string }

export type StepReason =
  | 'code-missing'
  | 'code-wrong'
  | 'code-used'
  /** Right at another time: the clock of the phone or of this service is wrong. */
  | 'code-early'
  | 'code-late'
  | 'too-many-guesses'
  /** The key of its secret is not in the key file. */
  | 'factor-unreadable'

export type SecondStep =
  /** The user has no second factor. */
  | { kind: 'not-needed' }
  | { kind: 'proved'; proof: { used: UsedProof; guessesBelow: number }; totpId: string | null }
  | { kind: 'unproved'; reason: StepReason; failed: FailedStep }

export type SecondStepDeps = {
  store: Pick<Store, 'secondFactors'>
  keys: Keys
  clock: () => Date
}

/** No user and no factor has it. */
const NO_ID = '00000000-0000-0000-0000-000000000000'
const DECOY = randomBytes(20)
const decoys = new WeakMap<EncryptionKey, string>()

export async function checkSecondStep(
  { store, keys, clock }: SecondStepDeps,
  user: User | null,
  { otp }: Proof,
  isKnownDevice: boolean,
): Promise<SecondStep> {
  const now = clock()
  const key = keys.encryptionAt(now)
  const userId = user?.id ?? NO_ID
  const recoveryDigest = digestOfRecoveryCode(otp)
  const stored = await store.secondFactors.findProofs(userId, recoveryDigest)
  const { id, secret } = stored.totp ?? { id: NO_ID, secret: decoyBy(key) }
  const context = factorContext(stored.totp ? userId : NO_ID, id)
  const decrypted = decrypt(keys, secret, context)
  const code = findCode(decrypted ?? DECOY, otp, now)
  if (!user || !stored.hasFactor) return { kind: 'not-needed' }

  const reason = problemWith(otp, stored, decrypted !== null, code)
  const guessesBelow = isKnownDevice ? GUESSES.knownDevice : GUESSES.unknownDevice
  if (reason !== null) {
    const isOffset = reason === 'code-early' || reason === 'code-late'
    const failed = {
      guessesBelow: reason === 'code-wrong' ? guessesBelow : 0,
      codeOffsetSeconds: isOffset && code ? code.offsetSeconds : null,
    }
    return { kind: 'unproved', reason, failed }
  }
  if (user.failedSecondSteps >= guessesBelow) {
    return { kind: 'unproved', reason: 'too-many-guesses', failed: NO_GUESS }
  }
  // An older key has encrypted the secret: the login stores it again.
  const isOutdated = decrypted && key && keyIdOf(secret) !== key.keyId
  const used: UsedProof =
    code && stored.recoveryCode === null
      ? {
          ...{ kind: 'totp', id, usedTo: code.usedTo },
          secret: isOutdated ? encrypt(key, decrypted, context) : secret,
        }
      : { kind: 'recovery-code', digest: recoveryDigest }
  return { kind: 'proved', proof: { used, guessesBelow }, totpId: stored.totp?.id ?? null }
}

/** Null if the proof is right. */
function problemWith(
  otp: string,
  { totp, recoveryCode }: StoredProofs,
  isReadable: boolean,
  code: ReturnType<typeof findCode>,
): StepReason | null {
  if (otp.trim() === '') return 'code-missing'
  if (recoveryCode !== null) return recoveryCode === 'used' ? 'code-used' : null
  if (totp && !isReadable) return 'factor-unreadable'
  if (!totp || !code) return 'code-wrong'
  if (!code.isAccepted) return code.offsetSeconds > 0 ? 'code-early' : 'code-late'
  return isUsedUp(code.usedTo, totp.usedTo) ? 'code-used' : null
}

/** The transaction that opens the session decides by the same rule. */
function isUsedUp(step: Date, usedTo: Date | null): boolean {
  const aheadMs = usedTo === null ? -1 : usedTo.getTime() - step.getTime()
  return aheadMs >= 0 && aheadMs <= USED_AHEAD_MAX_MS
}

/** A secret decrypts for this factor of this user only. */
export function factorContext(userId: string, factorId: string): string {
  return `totp ${userId} ${factorId}`
}

function decoyBy(key: EncryptionKey | null): string {
  if (!key) return ''
  const decoy = decoys.get(key) ?? encrypt(key, DECOY, factorContext(NO_ID, NO_ID))
  decoys.set(key, decoy)
  return decoy
}
