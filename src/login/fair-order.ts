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
  const ofAccount = turns(arrived.toSorted(runningFirst), ({ client, account }) =>
    JSON.stringify([client, account]),
  )
  const ofClient = turns(
    arrived.toSorted((a, b) => turnOf(ofAccount, a) - turnOf(ofAccount, b) || runningFirst(a, b)),
    ({ client }) => client,
  )
  return arrived.toSorted(
    (a, b) =>
      Number(b.hasPriority) - Number(a.hasPriority) || turnOf(ofClient, a) - turnOf(ofClient, b),
  )
}

/** Numbers the claims of each group in their order. */
function turns<C extends Claim>(claims: C[], groupOf: (claim: C) => string): Map<C, number> {
  const counts = new Map<string, number>()
  const numbered = new Map<C, number>()
  for (const claim of claims) {
    const group = groupOf(claim)
    const turn = (counts.get(group) ?? 0) + 1
    counts.set(group, turn)
    numbered.set(claim, turn)
  }
  return numbered
}

function turnOf<C extends Claim>(numbered: Map<C, number>, claim: C): number {
  return numbered.get(claim) ?? 0
}

function runningFirst(a: Claim, b: Claim): number {
  return Number(b.isRunning) - Number(a.isRunning)
}
