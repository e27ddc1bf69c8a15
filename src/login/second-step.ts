// The second step of a login. What its proof is compared with is read, decrypted and computed while the hash runs, for
// every attempt: where there is no user or no second factor, with a decoy.
import { randomBytes } from 'node:crypto'
import {
  type Factor,
  type FailedStep,
  GUESSES,
  NO_GUESS,
  type StoredFactor,
  type StoredProofs,
  USED_AHEAD_MAX_MS,
  type UsedProof,
} from '../domain/second-factor.ts'
import type { Store } from '../domain/store.ts'
import type { User } from '../domain/user.ts'
import { decrypt, encrypt, keyIdOf } from '../keys/encryption.ts'
import type { EncryptionKey, Keys } from '../keys/key-set.ts'
import {
  type Assertion,
  CREDENTIAL_ID,
  checkAssertion,
  type PasskeyFlaw,
  type PasskeyRules,
} from './passkey.ts'
import { digestOfRecoveryCode } from './recovery-codes.ts'
import { findCode } from './totp.ts'

/** What proves the second step: a code of an app or a recovery code, or else a passkey. */
export type Proof = { otp: string; passkey: Assertion | null }

export type StepReason =
  | 'code-missing'
  | 'code-wrong'
  | 'code-used'
  /** Right at another time: the clock of the phone or of this service is wrong. */
  | 'code-early'
  | 'code-late'
  /** The user has no passkey of this id and domain. */
  | 'passkey-unknown'
  | `passkey-${PasskeyFlaw | 'used'}`
  | 'too-many-guesses'
  /** The key of its secret is not in the key file. */
  | 'factor-unreadable'

/** Proofs that were never right. */
const GUESSED: StepReason[] = ['code-wrong', 'passkey-unknown', 'passkey-wrong']

export type SecondStep =
  /** The user has no second factor. */
  | { kind: 'not-needed' }
  | { kind: 'proved'; proof: { used: UsedProof; guessesBelow: number } }
  | { kind: 'unproved'; reason: StepReason; failed: FailedStep }

export type SecondStepDeps = {
  store: Pick<Store, 'secondFactors'>
  keys: Keys
  passkeys: PasskeyRules
  clock: () => Date
}

/** No user and no factor has it. */
const NO_ID = '00000000-0000-0000-0000-000000000000'
const DECOY = randomBytes(20)
const decoys = new WeakMap<EncryptionKey, string>()

export async function checkSecondStep(
  { store, keys, passkeys, clock }: SecondStepDeps,
  user: User | null,
  { otp, passkey }: Proof,
  isKnownDevice: boolean,
): Promise<SecondStep> {
  const now = clock()
  const key = keys.encryptionAt(now)
  const userId = user?.id ?? NO_ID
  const recoveryDigest = digestOfRecoveryCode(otp)
  const credentialId = passkey && CREDENTIAL_ID.test(passkey.id) ? passkey.id : ''
  const proofKeys = { recoveryDigest, credentialId, rpId: passkeys.rpId ?? '' }
  const stored = await store.secondFactors.findProofs(userId, proofKeys)
  const { id, secret } = stored.totp ?? { id: NO_ID, secret: decoyBy(key) }
  const context = factorContext(stored.totp ? userId : NO_ID, id)
  const decrypted = decrypt(keys, secret, context)
  const code = findCode(decrypted ?? DECOY, otp, now)
  const signed = passkey && checkAssertion(passkeys, passkey, stored.passkey?.secret ?? null, now)
  if (!user || !stored.hasFactor) return { kind: 'not-needed' }

  const judged = signed
    ? judgePasskey(stored.passkey, signed, now)
    : judgeCode(otp, stored, decrypted !== null, code, recoveryDigest, now)
  const guessesBelow = isKnownDevice ? GUESSES.knownDevice : GUESSES.unknownDevice
  if (typeof judged === 'string') {
    const isOffset = judged === 'code-early' || judged === 'code-late'
    const failed = {
      guessesBelow: GUESSED.includes(judged) ? guessesBelow : 0,
      codeOffsetSeconds: isOffset && code ? code.offsetSeconds : null,
    }
    return { kind: 'unproved', reason: judged, failed }
  }
  if (user.failedSecondSteps >= guessesBelow) {
    return { kind: 'unproved', reason: 'too-many-guesses', failed: NO_GUESS }
  }
  // An older key has encrypted the secret: the login stores it again.
  const isOutdated = judged.kind === 'totp' && decrypted && key && keyIdOf(secret) !== key.keyId
  const used = isOutdated ? { ...judged, secret: encrypt(key, decrypted, context) } : judged
  return { kind: 'proved', proof: { used, guessesBelow } }
}

function judgePasskey(
  stored: StoredFactor | null,
  signed: ReturnType<typeof checkAssertion>,
  now: Date,
): UsedProof | StepReason {
  if (!stored) return 'passkey-unknown'
  if ('flaw' in signed) return `passkey-${signed.flaw}`
  if (isUsedUp('passkey', signed.at, stored.usedTo, now)) return 'passkey-used'
  return { ...stored, kind: 'passkey', usedTo: signed.at }
}

function judgeCode(
  otp: string,
  { totp, recoveryCode }: StoredProofs,
  isReadable: boolean,
  code: ReturnType<typeof findCode>,
  recoveryDigest: string,
  now: Date,
): UsedProof | StepReason {
  if (otp.trim() === '') return 'code-missing'
  if (recoveryCode === 'used') return 'code-used'
  if (recoveryCode === 'good') return { kind: 'recovery-code', digest: recoveryDigest }
  if (totp && !isReadable) return 'factor-unreadable'
  if (!totp || !code) return 'code-wrong'
  if (!code.isAccepted) return code.offsetSeconds > 0 ? 'code-early' : 'code-late'
  if (isUsedUp('totp', code.usedTo, totp.usedTo, now)) return 'code-used'
  return { ...totp, kind: 'totp', usedTo: code.usedTo }
}

/** The transaction that opens the session decides by the same rule. */
function isUsedUp(kind: Factor['kind'], at: Date, usedTo: Date | null, now: Date): boolean {
  if (usedTo === null) return false
  return usedTo >= at && usedTo.getTime() - now.getTime() <= USED_AHEAD_MAX_MS[kind]
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
