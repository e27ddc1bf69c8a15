// The order in which attempts are hashed, and in reverse the order in which they give way.

/** After this time without another hash, a name counts half of what it did. */
const HALF_LIFE_MS = 2_000
/** This much of a hash does not count any more: one hash is forgotten after 5 seconds. */
const FORGOTTEN = 0.18
const PURGE_EVERY_MS = 10_000

export type Claim = {
  /** Many addresses that may belong to one owner. */
  network: string
  client: string
  account: string
  isKnownDevice: boolean
}

export type Ranked = Claim & {
  /** The client and the account. */
  pair: string
  /** An attempt from a known device, which comes first. */
  hasPriority: boolean
  /** A hash that is being computed counts before the other attempts of its account, client and network. */
  isRunning: boolean
  /** How many of the recent hashes are its own. They do not count against it. */
  ownHashes: number
  /** Set by `inFairOrder`. */
  turn: number
}

/** From the inner level to the outer one: what takes turns with others of its kind. */
const LEVELS = ['pair', 'client', 'network'] as const

/**
 * How many hashes a name has had lately. Without this memory, an attempt that is repeated at once after every
 * answer would always have as good a claim as one that comes for the first time.
 */
export function createShares(nowMs: () => number) {
  const shares = new Map<string, { count: number; atMs: number }>()
  const shareOf = (name: string) => {
    const share = shares.get(name)
    return share ? share.count * 0.5 ** ((nowMs() - share.atMs) / HALF_LIFE_MS) : 0
  }
  /** A whole number, so that names with almost the same share stay in the order of arrival. */
  const countOf = (name: string) => Math.max(0, Math.ceil(shareOf(name) - FORGOTTEN))
  let purgedMs = nowMs()
  return {
    countOf,
    add(attempt: Ranked): void {
      const names = LEVELS.map(level => attempt[level])
      for (const name of attempt.hasPriority ? [...names, priorityName(attempt)] : names) {
        shares.set(name, { count: shareOf(name) + 1, atMs: nowMs() })
      }
      if (nowMs() - purgedMs < PURGE_EVERY_MS) return
      purgedMs = nowMs()
      for (const name of shares.keys()) if (countOf(name) === 0) shares.delete(name)
    },
  }
}

export type Shares = ReturnType<typeof createShares>

/**
 * Networks take turns, the clients of one network do, and the accounts of one client do: the second attempt of
 * a network comes after the first ones of all other networks. Its recent hashes count like attempts before.
 * Attempts with the same turn stay in the order of their arrival.
 */
export function inFairOrder<A extends Ranked>(arrived: A[], shares: Shares): A[] {
  const runningFirst = arrived.toSorted((a, b) => Number(b.isRunning) - Number(a.isRunning))
  let inTurn = runningFirst
  for (const level of LEVELS) {
    const latest = new Map<string, number>()
    for (const attempt of inTurn) {
      const name = attempt[level]
      const turn = 1 + (latest.get(name) ?? shares.countOf(name))
      latest.set(name, turn)
      attempt.turn = turn - attempt.ownHashes
    }
    inTurn = runningFirst.toSorted((a, b) => a.turn - b.turn)
  }
  const first = (attempt: A) => Number(attempt.hasPriority)
  return arrived.toSorted((a, b) => first(b) - first(a) || a.turn - b.turn)
}

/**
 * An attacker may have accounts with known devices too. So only one attempt per network and per account has
 * priority at a time, and an account does not have it again soon.
 */
export function canHavePriority(claim: Claim, others: Ranked[], shares: Shares): boolean {
  const { network, account, isKnownDevice } = claim
  return (
    isKnownDevice &&
    shares.countOf(priorityName(claim)) === 0 &&
    !others.some(it => it.hasPriority && (it.network === network || it.account === account))
  )
}

/** No client has such a name. */
function priorityName({ account }: Claim): string {
  return `priority ${account}`
}
