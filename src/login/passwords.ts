// bcrypt in the thread pool. Every verification does the work of one hash of the configured cost, so that its
// time does not reveal which emails exist. Only a stored hash of a higher cost takes longer.
import { randomBytes } from 'node:crypto'
import bcrypt from 'bcrypt'

/** A hash of a higher cost would occupy a thread for seconds, so it is never evaluated. */
export const MAX_EVALUATED_COST = 15
const CHEAPEST_COST = 4
const BCRYPT_HASH = /^\$2[aby]\$(\d\d)\$[./A-Za-z0-9]{53}$/

export type Passwords = {
  /** True if the password has this hash. A null password or a null hash never matches. */
  verify(password: string | null, passwordHash: string | null): Promise<boolean>
  hash(password: string): Promise<string>
  /** True if the hash should be replaced at the next successful login. */
  isOutdated(passwordHash: string): boolean
  /** The estimated duration of one verification on this machine. */
  estimateMs: number
}

export async function createPasswords(cost: number): Promise<Passwords> {
  // A hash of random bytes, so that no password matches it.
  const decoy = await bcrypt.hash(randomBytes(32).toString('base64'), cost)
  if (costOf(decoy) !== cost) throw new Error(`bcrypt made a decoy of another cost than ${cost}`)

  return {
    estimateMs: (await timeCheapest(decoy)) * 2 ** (cost - CHEAPEST_COST),
    async verify(password, passwordHash) {
      const storedCost = costOf(passwordHash)
      const evaluated = passwordHash === null || storedCost === null ? decoy : passwordHash
      const matches = await bcrypt.compare(password ?? '', toSupportedPrefix(evaluated))
      for (const owed of owedCosts(storedCost ?? cost, cost)) {
        await bcrypt.compare(password ?? '', withCost(decoy, owed))
      }
      return matches && password !== null && evaluated === passwordHash
    },
    hash: password => bcrypt.hash(password, cost),
    isOutdated: passwordHash => costOf(passwordHash) !== cost,
  }
}

/** The shortest of a few measurements, because the start of the process delays some of them. */
async function timeCheapest(decoy: string): Promise<number> {
  let bestMs = Number.POSITIVE_INFINITY
  for (let i = 0; i < 4; i++) {
    const beganMs = performance.now()
    await bcrypt.compare('', withCost(decoy, CHEAPEST_COST))
    bestMs = Math.min(bestMs, performance.now() - beganMs)
  }
  return bestMs
}

/** The costs of the decoys to add to a cheaper hash: 2^c + (2^c + 2^(c+1) + … + 2^(C-1)) = 2^C. */
export function owedCosts(verifiedCost: number, cost: number): number[] {
  return Array.from({ length: Math.max(0, cost - verifiedCost) }, (_, step) => verifiedCost + step)
}

/** The cost of a hash; null if the hash cannot be evaluated. */
function costOf(passwordHash: string | null): number | null {
  const digits = BCRYPT_HASH.exec(passwordHash ?? '')?.[1]
  const cost = Number(digits)
  return digits !== undefined && cost >= CHEAPEST_COST && cost <= MAX_EVALUATED_COST ? cost : null
}

/** "$2y$" names the same algorithm as "$2b$", but the library rejects it without computing a hash. */
function toSupportedPrefix(passwordHash: string): string {
  return passwordHash.replace(/^\$2y\$/, '$2b$')
}

function withCost(passwordHash: string, cost: number): string {
  return passwordHash.replace(/\$\d\d\$/, `$${String(cost).padStart(2, '0')}$`)
}
