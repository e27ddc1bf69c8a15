// Logins of users while an attacker floods the service, in simulated time: the real hash queue and the real
// pace, with a simulated hasher, and callers that wait in the same time. Every run with the same seed is the same.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { setImmediate as drained } from 'node:timers/promises'
import { createHashQueue } from '../../src/hashing/hash-queue.ts'
import { REMEMBERED_MS } from '../../src/hashing/recent-hashes.ts'
import { createPace } from '../../src/login/pace.ts'
import { toCountedClient, turnNetwork } from '../../src/system/client-group.ts'
import { inParallel } from '../support/own.ts'
import { createRandom } from '../support/random.ts'
import { CHUNK_MS, COST, HASH_MS, ROUNDS, simulateHasher } from './simulated-hasher.ts'

type Scenario = {
  name: string
  attacker: Attacker | null
  users: Users
  /** How many times as long as usual a hash takes. */
  slowness: number
}
type Attacker = {
  /** The address of this attempt, counted over all callers. */
  addressOf: (index: number) => string
  /** Its own accounts, which it uses with the right passwords. Zero: a new email for each attempt. */
  accounts: number
  isKnownDevice: boolean
  /** It changes the passwords of its accounts instead of logging in. */
  isChange?: boolean
  callers: number
  /** All callers send an attempt at the same moment, this often. Else each repeats after every answer. */
  burstEveryMs?: number
}
type Users = {
  count: number
  everyMs: number
  addressOf: (index: number, kind: UserKind) => string
}
type UserKind = 'stranger' | 'known device'
type SimulatedAttempt = {
  address: string
  account: string
  isKnownDevice: boolean
  /** A change of the password, which is a second hash. */
  isChange?: boolean
}

const THREADS = 2
const LOGIN_TIME_MS = 1_000
/** A reservation, and the settling after the hash. */
const DATABASE_MS = 2
/** The time of a core that an answer takes from the hashes. */
const ANSWER_MS = 0.5
const SECOND_MS = 1_000

const SEED = 1
/** Users wait for the second that Retry-After asks for, and repeat for this long. */
const TIME_MS = 10_000
const RETRY_MS = 1_000
/** From its refusal to the next attempt of an attacker's caller. */
const [TURNAROUND_MIN_MS, TURNAROUND_MAX_MS] = [15, 45]
/** Before the first user comes, the attacker has used all that it can. */
const HEAD_START_MS = 6_000

const inNetworks = (networks: number) => (index: number) => `10.1.${index % networks}.1`
const in24 = (index: number) => `10.2.0.${1 + (index % 254)}`
const in48 = (index: number) => `2001:db8:2:${(index % 65_536).toString(16)}::1`
const ONE = inNetworks(1)
/** Attackers without accounts, and with accounts of their own. */
const FLOOD = { addressOf: ONE, accounts: 0, isKnownDevice: false, callers: 20 }
const OWNER = { addressOf: ONE, accounts: 10, isKnownDevice: true, callers: 20 }
const OWNERS = { ...OWNER, addressOf: in24, accounts: 20 }

const ALONE: Users = {
  count: 30,
  everyMs: 700,
  addressOf: (index, kind) => `10.${kind === 'stranger' ? 3 : 4}.${index}.1`,
}
const NEIGHBOURS: Users = {
  ...ALONE,
  addressOf: (index, kind) => `10.1.0.${(kind === 'stranger' ? 100 : 200) + index}`,
}
const BEHIND_ONE: Users = { ...ALONE, addressOf: ONE }
const OFFICE: Users = { count: 40, everyMs: 0, addressOf: () => '10.5.0.1' }

const SLOWNESS = 1.75

const attacked = (name: string, attacker: Attacker | null, users = ALONE, slowness = 1) => ({
  ...{ name, attacker, users, slowness },
})

/** What the service withstands. */
export const WITHSTOOD = [
  attacked('one address, one account', { ...FLOOD, accounts: 1 }),
  attacked('one address, no accounts', FLOOD),
  attacked('one address, 8 accounts with known devices', { ...OWNER, accounts: 8 }),
  attacked('one address, 10 accounts with known devices', OWNER),
  attacked('one address, 20 accounts with known devices', { ...OWNER, accounts: 20 }),
  attacked('the same; users in its /24', { ...OWNER, accounts: 20 }, NEIGHBOURS),
  attacked('the same; users behind its address', { ...OWNER, accounts: 20 }, BEHIND_ONE),
  attacked('ten networks, 10 accounts with known devices', { ...OWNER, addressOf: inNetworks(10) }),
  attacked('the same, all at once every 5 s', {
    ...OWNER,
    addressOf: inNetworks(10),
    burstEveryMs: REMEMBERED_MS + 1,
  }),
  attacked('a /24, no accounts', { ...FLOOD, addressOf: in24 }),
  attacked('a /24, 10 accounts with known devices', { ...OWNER, addressOf: in24 }),
  attacked('a /24, 254 accounts with known devices', { ...OWNER, addressOf: in24, accounts: 254 }),
  attacked('a /24, 20 accounts with known devices; slower hashes', OWNERS, ALONE, SLOWNESS),
  attacked('the same; it changes its passwords', { ...OWNERS, isChange: true }, ALONE, SLOWNESS),
  attacked('an IPv6 /48, no accounts', { ...FLOOD, addressOf: in48 }),
  attacked('an IPv6 /48, 20 accounts with known devices', {
    ...OWNER,
    addressOf: in48,
    accounts: 20,
  }),
]

/** All users log in at the same moment, from one address. */
export const OFFICES = [
  attacked('none', null, OFFICE),
  attacked('one address, no accounts', FLOOD, OFFICE),
  attacked('one address, 10 accounts with known devices', OWNER, OFFICE),
]

export function proveFairness(scenarios: Scenario[]): void {
  describe('users log in during an attack from', () => {
    for (const scenario of scenarios) {
      test(`${scenario.name}, beside ${scenario.users.count} users`, async () => {
        const [strangers, knownDevices] = await playScenario(scenario)
        const figures = JSON.stringify({ strangers, knownDevices })
        if (knownDevices === null) assert.ok(strangers.inTime >= 36, figures)
        else {
          assert.ok(strangers.first >= 28 && strangers.inTime >= 29, figures)
          assert.ok(knownDevices.first >= 29 && knownDevices.inTime >= 30, figures)
        }
      })
    }
  })
}

async function playScenario({ attacker, users, slowness }: Scenario) {
  const { attempt, sleep, nowMs, runUntil, random } = simulateLogins(SEED, slowness)
  let sent = 0

  async function attack({ addressOf, accounts, burstEveryMs, ...attacker }: Attacker) {
    if (!burstEveryMs) await sleep(random() * TURNAROUND_MAX_MS)
    for (;;) {
      const index = sent++
      const account = `attacker${accounts > 0 ? index % accounts : index}@example.com`
      await attempt({ ...attacker, address: addressOf(index), account })
      const turnaroundMs = TURNAROUND_MIN_MS + random() * (TURNAROUND_MAX_MS - TURNAROUND_MIN_MS)
      await sleep(burstEveryMs ? burstEveryMs - (nowMs() % burstEveryMs) : turnaroundMs)
    }
  }

  /** How many of the users succeed with their first attempt, and within TIME_MS. */
  async function logInAll(kind: UserKind) {
    const successes = { first: 0, inTime: 0 }
    await inParallel(users.count, async index => {
      await sleep(HEAD_START_MS + (index + random()) * users.everyMs)
      const isKnownDevice = kind === 'known device'
      const claim = { address: users.addressOf(index, kind), account: `${kind} ${index}` }
      const endMs = nowMs() + TIME_MS
      for (let isFirst = true; nowMs() < endMs; isFirst = false) {
        if (await attempt({ ...claim, isKnownDevice })) {
          successes.inTime++
          if (isFirst) successes.first++
          return
        }
        await sleep(RETRY_MS)
      }
    })
    return successes
  }

  if (attacker) for (let caller = 0; caller < attacker.callers; caller++) void attack(attacker)
  const isOffice = users === OFFICE
  return runUntil(Promise.all([logInAll('stranger'), isOffice ? null : logInAll('known device')]))
}

/** Hashes take `slowness` times as long as usual. */
function simulateLogins(seed: number, slowness: number) {
  const roundMs = HASH_MS.map(ms => (slowness * ms) / ROUNDS)
  const { hasher, nowMs, advance, setRoundMs } = simulateHasher({ threads: THREADS, roundMs })
  const queue = createHashQueue(hasher, { cost: COST, loginTimeMs: LOGIN_TIME_MS }, nowMs)
  let timers: { dueMs: number; wake: () => void }[] = []
  const sleep = (ms: number) =>
    new Promise<void>(wake => timers.push({ dueMs: nowMs() + ms, wake }))
  const pace = createPace(nowMs, sleep)
  /** The moments of the answers of the last second. */
  let answers: number[] = []

  /** Does what `login` in src/login/login.ts does; false if the attempt is shed. */
  async function attempt(attempted: SimulatedAttempt): Promise<boolean> {
    const { address, account, isKnownDevice, isChange } = attempted
    const counted = toCountedClient(address)
    if (!counted) throw new Error(`not an address: ${address}`)
    const network = turnNetwork(counted)
    pace.arrive(network)
    const claim = { network, client: counted.group, account, isKnownDevice }
    const finishByMs = nowMs() + LOGIN_TIME_MS
    let slot = queue.admit(claim, finishByMs)
    while (slot === 'undecided') {
      await queue.nextDecision()
      slot = queue.admit(claim, finishByMs)
    }
    await sleep(DATABASE_MS)
    let digest = await slot?.run(finishByMs, toJob())
    if (digest && isChange) digest = await slot?.run(finishByMs + LOGIN_TIME_MS, toJob())
    if (!digest) await pace.beforeRefusal(network)
    else await sleep(DATABASE_MS)
    answers.push(nowMs())
    return Boolean(digest)
  }

  /** Lets time pass until the promise is resolved. */
  async function runUntil<T>(ended: Promise<T>): Promise<T> {
    let isEnded = false
    void ended.then(() => {
      isEnded = true
    })
    for (await drained(); !isEnded; await drained()) {
      const nextMs = Math.min(nowMs() + CHUNK_MS, ...timers.map(({ dueMs }) => dueMs))
      answers = answers.filter(ms => ms > nowMs() - SECOND_MS)
      const share = (answers.length * ANSWER_MS) / SECOND_MS / THREADS
      setRoundMs(roundMs.map(ms => ms / (1 - share)))
      await advance(Math.max(0, nextMs - nowMs()))
      const due = timers.filter(({ dueMs }) => dueMs <= nowMs())
      timers = timers.filter(({ dueMs }) => dueMs > nowMs())
      for (const { wake } of due.toSorted((a, b) => a.dueMs - b.dueMs)) wake()
    }
    return ended
  }

  return { attempt, sleep, nowMs, runUntil, random: createRandom(seed) }
}

function toJob() {
  const nothing = Buffer.alloc(0)
  return { password: nothing, salt: nothing, rounds: ROUNDS, totalRounds: ROUNDS }
}
