// The same login by what a team would pick instead, on the same machine in turn.
import { loopbackAddress } from '../clients.ts'
import { type Lanes, latenciesMs, overallRate, runClosedLoop } from '../closed-loop.ts'
import { Connection, type Target } from '../connection.ts'
import { type Contestant, startContestants } from '../contestants.ts'
import { describeStatuses, type Findings, fixed, type Run } from '../findings.ts'
import { COST, emailOf, PASSWORD } from '../seed.ts'
import { median, quantile, sum } from '../statistics.ts'

const USERS = 2_000
const CONNECTIONS = [8, 64]
const GUESSES = 100
/** Below what any of them counts by address. */
const REQUESTS_PER_ADDRESS = 20
/** Each comparison calls from addresses, and guesses at accounts, that no other one uses. */
const TIMING_ADDRESSES = 20_000
const GUESSING_ADDRESSES = 30_000

type Load = { connections: number; slices: Lanes[] }
type Measured = { contestant: Contestant; loads: Load[]; timing: Timing; guesses: Guesses }
type Timing = { unknownMs: number; wrongMs: number; others: string }
type Guesses = { oneClient: number[]; manyClients: number[] }

export async function measurePeers({ isQuick, progress }: Run): Promise<Findings> {
  const rounds = isQuick ? 1 : 2
  const sliceMs = isQuick ? 3_000 : 15_000
  const pairs = isQuick ? 5 : 40
  progress('starting all of them')
  const contestants = await startContestants(USERS)
  const measured = contestants.map(contestant => ({
    contestant,
    loads: CONNECTIONS.map((connections): Load => ({ connections, slices: [] })),
  }))
  for (let round = 1; round <= rounds; round++) {
    for (const { contestant, loads } of measured) {
      for (const { connections, slices } of loads) {
        progress(`round ${round} of ${rounds}: ${contestant.name}, ${connections} connections`)
        const { target, request } = contestant
        slices.push(
          await runClosedLoop({
            target,
            connections,
            durationMs: sliceMs,
            request: index => request(emailOf(index % USERS), PASSWORD),
          }),
        )
      }
    }
  }
  const complete: Measured[] = []
  for (const part of measured) {
    progress(`timing: ${part.contestant.name}`)
    const timing = await compareTimes(part.contestant, pairs)
    progress(`guessing: ${part.contestant.name}`)
    const { protectedTarget, request } = part.contestant
    const guess = (user: number, addressOf: (index: number) => string) =>
      guessAtOnce(protectedTarget, request(emailOf(user), 'wrong'), addressOf)
    const guesses = {
      oneClient: await guess(USERS - 1, () => loopbackAddress(GUESSING_ADDRESSES)),
      manyClients: await guess(USERS - 2, index => loopbackAddress(GUESSING_ADDRESSES + 1 + index)),
    }
    complete.push({ ...part, timing, guesses })
  }
  await Promise.all(contestants.map(({ stop }) => stop()))
  return toFindings(complete, rounds, sliceMs, pairs)
}

/** Unknown e-mails and wrong passwords in turn, one at a time. */
async function compareTimes({ target, request }: Contestant, pairs: number): Promise<Timing> {
  const unknownMs: number[] = []
  const wrongMs: number[] = []
  const others: number[] = []
  let connection: Connection | null = null
  for (let index = 0; index < 2 * pairs; index++) {
    if (index % REQUESTS_PER_ADDRESS === 0) {
      connection?.close()
      connection = new Connection(target, loopbackAddress(TIMING_ADDRESSES + index))
      // The handshake belongs to neither; and no account's failures are used up by it.
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

async function guessAtOnce(
  target: Target,
  request: Buffer,
  addressOf: (index: number) => string,
): Promise<number[]> {
  return Promise.all(
    Array.from({ length: GUESSES }, async (_, index) => {
      const connection = new Connection(target, addressOf(index))
      const { status } = await connection.send(request)
      connection.close()
      return status
    }),
  )
}

function toFindings(
  measured: Measured[],
  rounds: number,
  sliceMs: number,
  pairs: number,
): Findings {
  const loads = measured.flatMap(({ contestant, loads }) =>
    loads.map(({ connections, slices }) => summarise(contestant, connections, slices)),
  )
  const verified = (statuses: number[]) => statuses.filter(status => status === 401).length
  return {
    title: `logins at cost ${COST} by other means`,
    tables: [
      {
        title: 'Who is compared',
        head: ['', 'over', 'made of'],
        rows: measured.map(({ contestant: { name, transport, parts } }) => [
          name,
          transport,
          parts,
        ]),
      },
      {
        title: `Logins, ${rounds} × ${sliceMs / 1_000} s; who is refused comes back when told to`,
        head: ['', 'connections', 'logins /s', 'p50', 'p99', 'refused'],
        rows: loads.map(load => [
          load.name,
          String(load.connections),
          fixed(load.perSecond, 2),
          `${fixed(load.p50Ms)} ms`,
          `${fixed(load.p99Ms)} ms`,
          load.refused || 'none',
        ]),
      },
      {
        title: `Guessing: medians of ${pairs} each, and ${GUESSES} wrong passwords for one account at once`,
        head: [
          '',
          'unknown e-mail',
          'wrong password',
          'difference',
          'verified, one client',
          'verified, 100 clients',
        ],
        rows: measured.map(({ contestant, timing, guesses }) => [
          contestant.name,
          `${fixed(timing.unknownMs, 1)} ms`,
          `${fixed(timing.wrongMs, 1)} ms`,
          `${fixed(timing.unknownMs - timing.wrongMs, 1)} ms${timing.others && `, ${timing.others}`}`,
          String(verified(guesses.oneClient)),
          String(verified(guesses.manyClients)),
        ]),
      },
    ],
    targets: [],
    plots: [],
    measured: {
      loads,
      guessing: measured.map(({ contestant, timing, guesses }) => ({
        name: contestant.name,
        ...timing,
        oneClient: describeStatuses(guesses.oneClient),
        manyClients: describeStatuses(guesses.manyClients),
      })),
    },
  }
}

function summarise({ name, success }: Contestant, connections: number, slices: Lanes[]) {
  const latencies = slices.flatMap(lanes => latenciesMs(lanes, success))
  const refused = slices
    .flat(2)
    .map(({ status }) => status)
    .filter(status => status !== success)
  return {
    name,
    connections,
    perSecond: sum(slices.map(lanes => overallRate(lanes, success))) / slices.length,
    p50Ms: quantile(latencies, 0.5),
    p99Ms: quantile(latencies, 0.99),
    refused: describeStatuses(refused),
  }
}
