// The order in which attempts are hashed, and in reverse the order in which they give way.
import type { RecentHashes } from './recent-hashes.ts'

export type Claim = {
  network: string
  client: string
  account: string
  /** An attempt from a known device, which comes first. */
  hasPriority: boolean
  /** A hash that is being computed counts before the other attempts of its account, client and network. */
  isRunning: boolean
  /** How many of the recent hashes are its own. They do not count against it. */
  ownHashes: number
}

/**
 * Networks take turns, the clients of one network do, and the accounts of one client do: the second attempt of
 * a network comes after the first ones of all other networks. Its recent hashes count like attempts before.
 * Attempts with the same turn stay in the order of their arrival.
 */
export function inFairOrder<C extends Claim>(arrived: C[], recent: RecentHashes): C[] {
  const runningFirst = arrived.toSorted((a, b) => Number(b.isRunning) - Number(a.isRunning))
  let inTurn = runningFirst
  const turns = new Map<C, number>()
  const byTurn = (a: C, b: C) => (turns.get(a) ?? 0) - (turns.get(b) ?? 0)
  for (const nameOf of LEVELS) {
    const latest = new Map<string, number>()
    for (const claim of inTurn) {
      const name = nameOf(claim)
      const turn = 1 + (latest.get(name) ?? recent.countOf(name))
      latest.set(name, turn)
      turns.set(claim, turn - claim.ownHashes)
    }
    inTurn = runningFirst.toSorted(byTurn)
  }
  return arrived.toSorted((a, b) => Number(b.hasPriority) - Number(a.hasPriority) || byTurn(a, b))
}

/** From the inner level to the outer one: what takes turns with others of its kind. */
const LEVELS: ((claim: Claim) => string)[] = [
  ({ client, account }) => `${client} ${account}`,
  ({ client }) => client,
  ({ network }) => network,
]

export function turnNamesOf(claim: Claim): string[] {
  return LEVELS.map(nameOf => nameOf(claim))
}
