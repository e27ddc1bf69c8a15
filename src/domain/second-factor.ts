// Second factors and recovery codes, and the operations of the store on them.
import type { Change } from './audit.ts'

/**
 * A guess is a wrong code that comes with the right password. From so many on, a code is accepted from known devices only,
 * or not at all. Guesses from unknown devices count up to the first number, so that they cannot reach the second.
 */
export const GUESSES = { unknownDevice: 10, knownDevice: 100 }
/** Fewer may be the user's own typing errors. */
export const ALARMING_GUESSES = 3
/**
 * A used-up time that is further ahead of now was used while the clock was wrong. It is ignored and overwritten, or the
 * user's proofs would be refused until that time has come. After a smaller error they are: somebody may have seen them.
 */
export const USED_AHEAD_MAX_MS = { totp: 24 * 3_600_000, passkey: 10 * 60_000 }
export const MAX_PASSKEYS = 10

/** A user has at most one factor of the kind `totp`. */
export type Factor = {
  id: string
  kind: 'totp' | 'passkey'
  name: string | null
  /** By which an authenticator knows a passkey; null for an app. */
  credentialId: string | null
  createdAt: Date
  lastUsedAt: Date | null
}

/**
 * `secret`: that of an app, encrypted, or the public key of a passkey. `usedTo`: codes of this step and earlier ones are used
 * up, or signatures of a challenge of this time and earlier ones.
 */
export type StoredFactor = { id: string; secret: string; usedTo: Date | null }

/** Names what a proof may be compared with. A passkey counts only for the domain (`rpId`) that it was made for. */
export type ProofKeys = { recoveryDigest: string; credentialId: string; rpId: string }

/** What a proof is compared with. */
export type StoredProofs = {
  hasFactor: boolean
  totp: StoredFactor | null
  /** The passkey with the given credential id. */
  passkey: StoredFactor | null
  /** The recovery code with the given digest. */
  recoveryCode: 'good' | 'used' | null
}

/** What a successful login uses up. */
export type UsedProof =
  /** The secret is stored again, because the key that has encrypted it may be an older one. */
  | { kind: Factor['kind']; id: string; usedTo: Date; secret: string }
  | { kind: 'recovery-code'; digest: string }

/** A failed attempt, as far as its second step is concerned. */
export type FailedStep = {
  /** It is counted as a guess while there are fewer than this; 0 for an attempt that is none. */
  guessesBelow: number
  /** See `User`. Null leaves it as it is. */
  codeOffsetSeconds: number | null
}

export const NO_GUESS: FailedStep = { guessesBelow: 0, codeOffsetSeconds: null }

export type NewFactor = Pick<Factor, 'id' | 'kind' | 'name' | 'credentialId'> & {
  secret: string
  usedTo: Date
  /** Of a passkey. */
  rpId: string | null
}

export type FactorsChange =
  /** Replaces an earlier app. The recovery codes stay if no new ones are given. */
  | { kind: 'set'; factor: NewFactor; recoveryDigests: string[] | null }
  /** Removing the last factor removes the recovery codes. */
  | { kind: 'remove'; id: string; isLast: boolean }
  | { kind: 'new-recovery-codes'; recoveryDigests: string[] }

export type ListedFactors = { factors: Factor[]; recoveryCodesLeft: number }
export const NO_FACTORS: ListedFactors = { factors: [], recoveryCodesLeft: 0 }

export interface SecondFactorStore {
  /** As much work for an id that no user has. One read. */
  findProofs(userId: string, keys: ProofKeys): Promise<StoredProofs>
  list(userId: string): Promise<ListedFactors>
  /** Those that were used come first. At most ten. */
  listRecoveryCodes(userId: string): Promise<{ usedAt: Date | null }[]>
  /** How many users have a factor. Reads an index of all factors. */
  countUsers(): Promise<number>
  /** How many users have a secret that each key has encrypted. Reads all factors. */
  countByKey(): Promise<{ keyId: string; users: number }[]>
  /** How many passkeys there are for each domain. Reads all factors. */
  countByDomain(): Promise<{ rpId: string; passkeys: number }[]>
  /**
   * Removes all factors and recovery codes of a user and ends all sessions. With a password, it also replaces that by
   * a temporary one. Does nothing without both. Returns how many factors it removed; null for an unknown id.
   */
  reset(
    userId: string,
    password: { hash: string; temporaryUntil: Date } | null,
    change: Change,
  ): Promise<number | null>
}
