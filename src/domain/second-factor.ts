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
 * A used-up step that is further ahead than this was used while the clock was wrong. It is ignored and overwritten, or the
 * user's codes would be refused until that time has come. After a smaller error they are: somebody may have seen them.
 */
export const USED_AHEAD_MAX_MS = 24 * 3_600_000

/** A user has at most one factor of the kind `totp`. */
export type Factor = {
  id: string
  kind: 'totp' | 'passkey'
  name: string | null
  createdAt: Date
  lastUsedAt: Date | null
}

/** What a proof is compared with. */
export type StoredProofs = {
  hasFactor: boolean
  /** `usedTo`: codes of this step and earlier ones are used up. */
  totp: { id: string; secret: string; usedTo: Date | null } | null
  /** The recovery code with the given digest. */
  recoveryCode: 'good' | 'used' | null
}

/** What a successful login uses up. */
export type UsedProof =
  /** `usedTo` is the start of the code's step. The secret is stored again, because its key may be an older one. */
  | { kind: 'totp'; id: string; usedTo: Date; secret: string }
  | { kind: 'recovery-code'; digest: string }

/** A failed attempt, as far as its second step is concerned. */
export type FailedStep = {
  /** It is counted as a guess while there are fewer than this; 0 for an attempt that is none. */
  guessesBelow: number
  /** See `User`. Null leaves it as it is. */
  codeOffsetSeconds: number | null
}

export const NO_GUESS: FailedStep = { guessesBelow: 0, codeOffsetSeconds: null }

export type FactorsChange =
  /** Replaces an earlier factor of this kind. */
  | { kind: 'set-totp'; id: string; secret: string; usedTo: Date; recoveryDigests: string[] }
  /** Removing the last factor removes the recovery codes. */
  | { kind: 'remove'; id: string }
  | { kind: 'new-recovery-codes'; recoveryDigests: string[] }

export type ListedFactors = { factors: Factor[]; recoveryCodesLeft: number }
export const NO_FACTORS: ListedFactors = { factors: [], recoveryCodesLeft: 0 }

export interface SecondFactorStore {
  /** As much work for an id that no user has. One read. */
  findProofs(userId: string, recoveryDigest: string): Promise<StoredProofs>
  list(userId: string): Promise<ListedFactors>
  /** Those that were used come first. At most ten. */
  listRecoveryCodes(userId: string): Promise<{ usedAt: Date | null }[]>
  /** How many users have a factor. Reads an index of all factors. */
  countUsers(): Promise<number>
  /** How many users have a secret that each key has encrypted. Reads all factors. */
  countByKey(): Promise<{ keyId: string; users: number }[]>
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
