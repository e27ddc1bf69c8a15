// What an attacker learns from each contestant: which emails exist, and how many guesses are verified.
import { loopbackAddress } from './clients.ts'
import { Connection } from './connection.ts'
import type { Contestant } from './contestants.ts'
import { describeStatuses } from './findings.ts'
import { emailOf, PASSWORD } from './seed.ts'
import { median } from './statistics.ts'

/** Below the limit per address of every contestant. */
const REQUESTS_PER_ADDRESS = 20
/** The two comparisons use different addresses. */
const TIMING_ADDRESSES = 20_000
const GUESSING_ADDRESSES = 30_000

export type Timing = { unknownMs: number; wrongMs: number; others: string }
/** The statuses that the guesses were answered with. */
export type Guesses = { oneClient: number[]; manyClients: number[] }

/** Sends unknown emails and wrong passwords in turn, one at a time. */
export async function compareTimes(
  { target, request }: Contestant,
  pairs: number,
): Promise<Timing> {
  const unknownMs: number[] = []
  const wrongMs: number[] = []
  const others: number[] = []
  let connection: Connection | null = null
  for (let index = 0; index < 2 * pairs; index++) {
    if (index % REQUESTS_PER_ADDRESS === 0) {
      connection?.close()
      connection = new Connection(target, loopbackAddress(TIMING_ADDRESSES + index))
      // A successful login first, so that the TLS handshake is not measured and no failure is counted.
      await connection.send(request(emailOf(index + 1_000), PASSWORD))
    }
    const email = index % 2 === 0 ? `unknown${index}@example.com` : emailOf(index)
    const startMs = performance.now()
    const answer = await connection?.send(request(email, 'wrong'))
    const elapsedMs = performance.now() - startMs
    if (answer?.status !== 401) others.push(answer?.status ?? 0)
    else if (index % 2 === 0) unknownMs.push(elapsedMs)
    else wrongMs.push(elapsedMs)
  }
  connection?.close()
  return {
    unknownMs: median(unknownMs),
    wrongMs: median(wrongMs),
    others: describeStatuses(others),
  }
}

/** Sends parallel wrong passwords to one account from one client, and to another from many clients. */
export async function guessAtOnce(
  contestant: Contestant,
  users: number,
  guesses: number,
): Promise<Guesses> {
  const { protectedTarget, request } = contestant
  const guess = (user: number, addressOf: (index: number) => string) =>
    Promise.all(
      Array.from({ length: guesses }, async (_, index) => {
        const address = addressOf(index)
        const connection = new Connection(protectedTarget, address)
        const { status } = await connection.send(request(emailOf(user), 'wrong', address))
        connection.close()
        return status
      }),
    )
  return {
    oneClient: await guess(users - 1, () => loopbackAddress(GUESSING_ADDRESSES)),
    manyClients: await guess(users - 2, index => loopbackAddress(GUESSING_ADDRESSES + 1 + index)),
  }
}
