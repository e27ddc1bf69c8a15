// Compares the login with alternatives that a team could choose, on the same machine in turn.
import { loopbackAddress } from '../clients.ts'
import { type Lanes, latenciesMs, overallRate, runClosedLoop } from '../closed-loop.ts'
import { Connection } from '../connection.ts'
import { type Contestant, startContestants } from '../contestants.ts'
import { describeStatuses, type Findings, fixed, type Run } from '../findings.ts'
import { compareTimes, type Guesses, guessAtOnce, type Timing } from '../guessing.ts'
import { COST, emailOf, PASSWORD } from '../seed.ts'
import { quantile } from '../statistics.ts'

const USERS = 2_000
const CONNECTIONS = [8, 64]
/** All contestants answer 401 to a wrong password. */
const SUCCESS = 200

type Load = { connections: number; lanes: Lanes }
type Measured = { contestant: Contestant; loads: Load[]; timing: Timing; answers: Guesses }

export async function measurePeers({ isQuick, progress }: Run): Promise<Findings> {
  const sliceMs = isQuick ? 3_000 : 15_000
  const pairs = isQuick ? 5 : 30
  const guesses = isQuick ? 12 : 100
  progress('starting all of them')
  const contestants = await startContestants(USERS)
  for (const contestant of contestants) await checkLogin(contestant)
  const measured = contestants.map(contestant => ({
    contestant,
    loads: [] as Load[],
  }))
  for (const { contestant, loads } of measured) {
    for (const connections of CONNECTIONS) {
      progress(`${contestant.name}, ${connections} connections`)
      const { target, request } = contestant
      const lanes = await runClosedLoop({
        target,
        connections,
        durationMs: sliceMs,
        request: index => request(emailOf(index % USERS), PASSWORD),
      })
      loads.push({ connections, lanes })
    }
  }
  const complete: Measured[] = []
  for (const part of measured) {
    progress(`timing: ${part.contestant.name}`)
    const timing = await compareTimes(part.contestant, pairs)
    progress(`guessing: ${part.contestant.name}`)
    const answers = await guessAtOnce(part.contestant, USERS, guesses)
    complete.push({ ...part, timing, answers })
  }
  await Promise.all(contestants.map(({ stop }) => stop()))
  return toFindings(complete, { load: `${sliceMs / 1_000} s`, pairs, guesses })
}

/** Checks that a right password is accepted, because the comparison would otherwise be worthless. */
async function checkLogin({ name, target, request }: Contestant): Promise<void> {
  const connection = new Connection(target, loopbackAddress(0))
  const { status } = await connection.send(request(emailOf(0), PASSWORD))
  connection.close()
  if (status !== SUCCESS) throw new Error(`${name} answered ${status} to a right password`)
}

function toFindings(
  measured: Measured[],
  { load, pairs, guesses }: { load: string; pairs: number; guesses: number },
): Findings {
  const loads = measured.flatMap(({ contestant, loads }) =>
    loads.map(load => summarise(contestant, load)),
  )
  // The first entry is this service on SQLite.
  const oursPerSecond = (connections: number) =>
    loads.find(load => load.connections === connections)?.perSecond ?? Number.NaN
  const verified = (statuses: number[]) => statuses.filter(status => status === 401).length
  return {
    title: `logins at cost ${COST} by other means`,
    tables: [
      {
        title: 'The services compared',
        head: ['', 'over', 'made of'],
        rows: measured.map(({ contestant: { name, transport, parts } }) => [
          name,
          transport,
          parts,
        ]),
      },
      {
        title: `Logins, ${load}; a caller that is refused waits for its Retry-After`,
        head: ['', 'connections', 'logins /s', 'of ours on SQLite', 'p50', 'p99', 'refused'],
        rows: loads.map(load => [
          load.name,
          String(load.connections),
          fixed(load.perSecond, 2),
          fixed(load.perSecond / oursPerSecond(load.connections), 2),
          `${fixed(load.p50Ms)} ms`,
          `${fixed(load.p99Ms)} ms`,
          load.refused || 'none',
        ]),
      },
      {
        title: `Guessing: medians of ${pairs} each, and ${guesses} wrong passwords for one account at once`,
        head: [
          '',
          'unknown email',
          'wrong password',
          'difference',
          'verified, one client',
          `verified, ${guesses} clients`,
        ],
        rows: measured.map(({ contestant, timing, answers }) => [
          contestant.name,
          `${fixed(timing.unknownMs, 1)} ms`,
          `${fixed(timing.wrongMs, 1)} ms`,
          `${fixed(timing.unknownMs - timing.wrongMs, 1)} ms${timing.others && `, ${timing.others}`}`,
          String(verified(answers.oneClient)),
          String(verified(answers.manyClients)),
        ]),
      },
    ],
    targets: [],
  }
}

function summarise({ name }: Contestant, { connections, lanes }: Load) {
  const latencies = latenciesMs(lanes, SUCCESS)
  const statuses = lanes.flat().map(({ status }) => status)
  return {
    name,
    connections,
    perSecond: overallRate(lanes, SUCCESS),
    p50Ms: quantile(latencies, 0.5),
    p99Ms: quantile(latencies, 0.99),
    refused: describeStatuses(statuses.filter(status => status !== SUCCESS)),
  }
}
