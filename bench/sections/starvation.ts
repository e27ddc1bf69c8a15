// Measures whether an attacker that never pauses keeps other users from logging in.
import { type Attack, attack, makeKnownDevice, sendOnce } from '../attack.ts'
import { loopbackAddress } from '../clients.ts'
import { demandOnly, IMPATIENT_MS, runClosedLoop, SATURATING, steadyRate } from '../closed-loop.ts'
import type { Target } from '../connection.ts'
import {
  describeStatuses,
  type Target as Figure,
  type Findings,
  fixed,
  type Run,
} from '../findings.ts'
import { startCpuShare } from '../processes.ts'
import { COST, emailOf, loginRequest, PASSWORD, rightLogins } from '../seed.ts'
import { deploy } from '../service.ts'
import { median } from '../statistics.ts'

/** Logins of strangers and of known devices during each attack. */
const LOGINS = 30
/** The users from 0 on are the attacker's. */
const ATTACKED = 1_000
/** The first users of the other kinds; each attack has its own strangers. */
const [KNOWN, STRANGERS, USERS] = [1_000, 1_100, 1_200]
/** The first addresses of each kind. */
const [ATTACKERS_AT, STRANGERS_AT, KNOWN_AT] = [10_000, 20_000, 30_000]

const ATTACKS: (Attack & { name: string })[] = [
  {
    name: 'one address, one account, right password',
    request: rightLogins(1),
    addresses: 1,
    firstAddress: ATTACKERS_AT,
  },
  {
    name: 'one address, many emails, wrong passwords',
    request: index => loginRequest(emailOf(index % ATTACKED), 'wrong'),
    addresses: 1,
    firstAddress: ATTACKERS_AT + 1_000,
  },
  {
    name: '200 addresses, many accounts, right passwords',
    request: rightLogins(ATTACKED),
    addresses: 200,
    firstAddress: ATTACKERS_AT + 2_000,
  },
]
const SETTINGS = [
  { cost: COST, timeMs: 1_000 },
  { cost: COST + 1, timeMs: 2_000 },
  { cost: COST + 1, timeMs: 1_000 },
]

type Case = Awaited<ReturnType<typeof measureCase>> & {
  name: string
  addresses: number
  cost: number
  timeMs: number
}
type Backend = { many: number[]; one: number[] }

export async function measureStarvation({ isQuick, progress }: Run): Promise<Findings> {
  const everyMs = isQuick ? 700 : 2_000
  const cases: Case[] = []
  for (const { cost, timeMs } of SETTINGS) {
    const setting = `cost ${cost} within ${timeMs} ms`
    const deployment = await deploy('sqlite', USERS, cost)
    const env = { BCRYPT_COST: String(cost), LOGIN_TIME_MS: String(timeMs) }
    const { target } = await deployment.start(env)
    progress(`${setting}: first logins of the known devices`)
    const known: Buffer[] = []
    for (let index = 0; index < LOGINS; index++) {
      const email = emailOf(KNOWN + index)
      const headers = await makeKnownDevice(target, email, loopbackAddress(KNOWN_AT + index))
      known.push(loginRequest(email, PASSWORD, headers))
    }
    for (const [index, attacker] of ATTACKS.entries()) {
      const { name, addresses } = attacker
      progress(`${setting}: ${name}`)
      const found = await measureCase(target, attacker, known, index * LOGINS, everyMs)
      cases.push({ name, addresses, cost, timeMs, ...found })
    }
    await deployment.remove()
  }
  progress('a backend with one address')
  return toFindings(cases, await measureBackend(isQuick))
}

async function measureCase(
  target: Target,
  attacker: Attack,
  known: Buffer[],
  offset: number,
  everyMs: number,
) {
  const strangers = Array.from({ length: LOGINS }, (_, index) =>
    loginRequest(emailOf(STRANGERS + offset + index)),
  )
  const durationMs = (LOGINS + 1) * everyMs
  const cpuShare = startCpuShare()
  const [attacked, strangersGot, knownGot] = await Promise.all([
    attack(target, attacker, durationMs),
    sendOnce(target, strangers, {
      firstAddress: STRANGERS_AT + offset,
      delayMs: everyMs / 2,
      everyMs,
    }),
    sendOnce(target, known, { firstAddress: KNOWN_AT, delayMs: everyMs, everyMs }),
  ])
  const summarise = (statuses: number[]) => ({
    succeeded: statuses.filter(status => status === 200).length,
    answers: describeStatuses(statuses.toSorted()),
  })
  return {
    durationMs,
    strangers: summarise(strangersGot),
    known: summarise(knownGot),
    attacker: summarise(attacked),
    generatorCpuShare: cpuShare(),
  }
}

/** Logins of many users from many addresses and from one, in turn, with no other client. */
async function measureBackend(isQuick: boolean): Promise<Backend> {
  const rounds = isQuick ? 2 : 6
  const durationMs = isQuick ? 2_000 : 6_000
  const deployment = await deploy('sqlite', USERS)
  const { target } = await deployment.start()
  const rates: Backend = { many: [], one: [] }
  const loop = { target, connections: SATURATING, durationMs, retryWithinMs: IMPATIENT_MS }
  for (let round = 0; round < rounds; round++) {
    for (const kind of ['many', 'one'] as const) {
      const lanes = await runClosedLoop({
        ...loop,
        request: rightLogins(USERS),
        addressOf: lane => loopbackAddress(kind === 'many' ? lane : 0),
      })
      demandOnly(lanes, 200, 503)
      rates[kind].push(steadyRate(lanes, 200))
    }
  }
  await deployment.remove()
  return rates
}

function toFindings(cases: Case[], backend: Backend): Findings {
  const [many, one] = [median(backend.many), median(backend.one)]
  return {
    title: 'logins during an attack that never pauses',
    tables: [
      {
        title: `SQLite; answers to one login each of ${LOGINS} strangers and ${LOGINS} known devices`,
        head: [
          'attacker',
          'cost',
          'time limit',
          'strangers',
          'known devices',
          'attacker’s logins /s',
          'attacker’s answers',
          'generator',
        ],
        rows: cases.map(found => [
          found.name,
          String(found.cost),
          `${found.timeMs} ms`,
          found.strangers.answers,
          found.known.answers,
          fixed((found.attacker.succeeded * 1_000) / found.durationMs, 2),
          found.attacker.answers,
          `${fixed(found.generatorCpuShare * 100)} % of a core`,
        ]),
      },
      {
        title: `A backend with one address for all its users, and no other client, at cost ${COST}`,
        head: ['', 'logins /s', 'of many addresses'],
        rows: [
          ['many addresses', fixed(many, 2), '1'],
          ['one address', fixed(one, 2), fixed(one / many, 3)],
        ],
      },
    ],
    targets: [
      ...cases.flatMap(targetsOf),
      {
        name: 'backend: one address ÷ many addresses',
        figure: one / many,
        digits: 3,
        unit: '',
        is: 'at least',
        limit: 0.95,
      },
    ],
  }
}

function targetsOf({ name, addresses, cost, timeMs, strangers, known }: Case): Figure[] {
  const target = (kind: string, figure: number, limit: number): Figure => ({
    name: `${kind}, cost ${cost} within ${timeMs} ms; ${name}`,
    figure,
    digits: 0,
    unit: '',
    is: 'at least',
    limit,
  })
  // A hash of a higher cost takes more than half of the default time limit.
  const isTight = cost > COST && timeMs === 1_000
  if (addresses > 1) return cost === COST ? [target('known devices', known.succeeded, 29)] : []
  if (isTight) return [target('known devices', known.succeeded, 27)]
  return [
    target('strangers', strangers.succeeded, 27),
    target('known devices', known.succeeded, 30),
  ]
}
