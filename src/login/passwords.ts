// Verifies passwords. Every verification does the work of one hash of the configured cost, so that its time
// does not reveal which emails exist. Only a stored hash of a higher cost takes longer.
import { randomBytes, timingSafeEqual } from 'node:crypto'
import bcrypt from 'bcrypt'
import { formatHash, parseHash } from '../bcrypt/hash-text.ts'
import type { HashJob } from '../bcrypt/hasher.ts'

export type Passwords = {
  /** A null password or a null hash never matches, and is as much work. */
  check(password: string | null, passwordHash: string | null): PasswordCheck
  hash(password: string): Promise<string>
  /** The same for the hash queue: the job, and the hash that its digest makes. */
  prepare(password: string): { job: HashJob; toHash(digest: Buffer): string }
  /** True if the hash should be replaced at the next successful login. */
  isOutdated(passwordHash: string): boolean
}

export type PasswordCheck = { job: HashJob; matches(digest: Buffer): boolean }

export function createPasswords(cost: number): Passwords {
  const decoy = formatHash({ cost, salt: randomBytes(16), digest: randomBytes(23) })
  return {
    check(password, passwordHash) {
      const stored = parseHash(passwordHash)
      // The decoy is parsed each time, because parsing a stored hash takes time too.
      const used = stored ?? parseHash(decoy)
      if (!used) throw new Error('the decoy is not a hash')
      const { salt, digest, cost: ownCost } = used
      return {
        job: {
          password: Buffer.from(password ?? ''),
          salt,
          rounds: 2 ** ownCost,
          totalRounds: 2 ** Math.max(ownCost, cost),
        },
        matches: computed =>
          timingSafeEqual(computed, digest) && stored !== null && password !== null,
      }
    },
    hash: password => bcrypt.hash(password, cost),
    prepare(password) {
      const salt = randomBytes(16)
      const rounds = 2 ** cost
      return {
        job: { password: Buffer.from(password), salt, rounds, totalRounds: rounds },
        toHash: digest => formatHash({ cost, salt, digest }),
      }
    },
    isOutdated: passwordHash => parseHash(passwordHash)?.cost !== cost,
  }
}
