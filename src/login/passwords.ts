// bcrypt, off the event loop: every verification does the work of exactly one hash of the configured
// cost, whatever is stored and whoever asks.
import { randomBytes } from 'node:crypto'
import bcrypt from 'bcrypt'

/** A cost above this would hold a thread for seconds; no such hash is ever evaluated. */
export const MAX_EVALUATED_COST = 15
const CHEAPEST_COST = 4
const BCRYPT_HASH = /^\$2[aby]\$(\d\d)\$[./A-Za-z0-9]{53}$/

export type Passwords = {
  /** True if the password has this hash. A null password matches nothing, a null hash is nobody's. */
  verify(password: string | null, passwordHash: string | null): Promise<boolean>
  hash(password: string): Promise<string>
  /** True if a hash should be made anew at the next success. */
  isOutdated(passwordHash: string): boolean
  /** About what one verification takes on this machine. */
  estimateMs: number
}

export async function createPasswords(cost: number): Promise<Passwords> {
  // A real hash of this cost, of bytes that nobody can guess: it must cost as much as any other.
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

/** The best of a few: a starting process would hold up a single one, or one of the whole cost. */
async function timeCheapest(decoy: string): Promise<number> {
  let bestMs = Number.POSITIVE_INFINITY
  for (let i = 0; i < 4; i++) {
    const beganMs = performance.now()
    await bcrypt.compare('', withCost(decoy, CHEAPEST_COST))
    bestMs = Math.min(bestMs, performance.now() - beganMs)
  }
  return bestMs
}

/** The decoys still due after a cheaper hash: 2^c + (2^c + 2^(c+1) + … + 2^(C-1)) = 2^C. */
export function owedCosts(verifiedCost: number, cost: number): number[] {
  return Array.from({ length: Math.max(0, cost - verifiedCost) }, (_, step) => verifiedCost + step)
}

/** The cost of a hash that can be evaluated, else null. */
function costOf(passwordHash: string | null): number | null {
  const digits = BCRYPT_HASH.exec(passwordHash ?? '')?.[1]
  const cost = Number(digits)
  return digits !== undefined && cost >= CHEAPEST_COST && cost <= MAX_EVALUATED_COST ? cost : null
}

/** The library answers false to "$2y$" without computing anything; it names the same algorithm. */
function toSupportedPrefix(passwordHash: string): string {
  return passwordHash.replace(/^\$2y\$/, '$2b$')
}

function withCost(passwordHash: string, cost: number): string {
  return passwordHash.replace(/\$\d\d\$/, `$${String(cost).padStart(2, '0')}$`)
}
