// The order in which attempts are hashed, and in reverse the order in which they give way.

export type Claim = {
  client: string
  account: string
  /** An attempt from a known device, which comes first. */
  hasPriority: boolean
  /** A hash that is being computed counts before the other attempts of its client and account. */
  isRunning: boolean
}

/**
 * Clients take turns, and the accounts of one client do: the second attempt of a client comes after the first
 * ones of all other clients. Attempts with the same turn stay in the order of their arrival.
 */
export function inFairOrder<C extends Claim>(arrived: C[]): C[] {
  const nextOfAccount = createCounter()
  const inTurnOfAccount = arrived
    .toSorted((a, b) => Number(b.isRunning) - Number(a.isRunning))
    .map(claim => ({ claim, turn: nextOfAccount(`${claim.client} ${claim.account}`) }))
    .sort((a, b) => a.turn - b.turn)
  const nextOfClient = createCounter()
  const turns = new Map(inTurnOfAccount.map(({ claim }) => [claim, nextOfClient(claim.client)]))
  return arrived.toSorted(
    (a, b) =>
      Number(b.hasPriority) - Number(a.hasPriority) || (turns.get(a) ?? 0) - (turns.get(b) ?? 0),
  )
}

/** Counts each name by itself, from 1. */
function createCounter() {
  const counts = new Map<string, number>()
  return (name: string) => {
    const count = (counts.get(name) ?? 0) + 1
    counts.set(name, count)
    return count
  }
}
