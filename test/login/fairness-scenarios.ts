// Logins of users while an attacker floods the service, in simulated time.
import { REMEMBERED_MS } from '../../src/login/recent-hashes.ts'
import { simulateLogins } from './simulated-logins.ts'

export type Scenario = {
  name: string
  attacker: Attacker | null
  users: Users
  /** How many times as long as usual a hash takes. */
  slowness?: number
}
type Attacker = {
  /** The address of this attempt, counted over all callers. */
  addressOf: (index: number) => string
  /** Its own accounts, which it uses with the right passwords. Zero: a new email for each attempt. */
  accounts: number
  hasKnownDevices: boolean
  /** It changes the passwords of its accounts instead of logging in. */
  isChanging?: boolean
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

/** How many of the users succeeded with their first attempt, and within TIME_MS. */
type Successes = { first: number; inTime: number }
export type FairnessFigures = {
  strangers: Successes
  knownDevices: Successes
  attackerPerSecond: number
}

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
const FLOOD = { addressOf: ONE, accounts: 0, hasKnownDevices: false, callers: 20 }
const OWNER = { addressOf: ONE, accounts: 10, hasKnownDevices: true, callers: 20 }
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

const attacked = (name: string, attacker: Attacker | null, users = ALONE): Scenario => ({
  ...{ name, attacker, users },
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
  attacked('ten networks, 10 accounts with known devices', {
    ...{ ...OWNER, addressOf: inNetworks(10) },
  }),
  attacked('the same, all at once every 5 s', {
    ...{ ...OWNER, addressOf: inNetworks(10), burstEveryMs: REMEMBERED_MS + 1 },
  }),
  attacked('a /24, no accounts', { ...FLOOD, addressOf: in24 }),
  attacked('a /24, 10 accounts with known devices', { ...OWNER, addressOf: in24 }),
  attacked('a /24, 254 accounts with known devices', {
    ...{ ...OWNER, addressOf: in24, accounts: 254 },
  }),
  {
    ...attacked('a /24, 20 accounts with known devices; hashes take 1.75 times as long', OWNERS),
    slowness: 1.75,
  },
  {
    ...attacked('the same; it changes its passwords', { ...OWNERS, isChanging: true }),
    slowness: 1.75,
  },
  attacked('an IPv6 /48, no accounts', { ...FLOOD, addressOf: in48 }),
  attacked('an IPv6 /48, 20 accounts with known devices', {
    ...{ ...OWNER, addressOf: in48, accounts: 20 },
  }),
]

/** All users log in at the same moment, from one address. */
export const OFFICES = [
  attacked('none', null, OFFICE),
  attacked('one address, no accounts', FLOOD, OFFICE),
  attacked('one address, 10 accounts with known devices', OWNER, OFFICE),
]

/** More networks than hashes are remembered: each attempt of the attacker looks like that of a stranger. */
export const BEYOND = [
  attacked('50 networks, no accounts', { ...FLOOD, addressOf: inNetworks(50) }),
  attacked('100 networks, no accounts', { ...FLOOD, addressOf: inNetworks(100) }),
  attacked('50 networks, 50 accounts with known devices', {
    ...{ ...OWNER, addressOf: inNetworks(50), accounts: 50 },
  }),
  attacked('100 networks, 100 accounts with known devices', {
    ...{ ...OWNER, addressOf: inNetworks(100), accounts: 100 },
  }),
]

export async function playScenario({
  attacker,
  users,
  slowness = 1,
}: Scenario): Promise<FairnessFigures> {
  const { attempt, sleep, nowMs, runUntil, random } = simulateLogins(SEED, slowness)
  let sent = 0
  let attackerSucceeded = 0

  async function attack({
    addressOf,
    accounts,
    hasKnownDevices,
    isChanging = false,
    burstEveryMs,
  }: Attacker) {
    if (!burstEveryMs) await sleep(random() * TURNAROUND_MAX_MS)
    for (;;) {
      const index = sent++
      const account = `attacker${accounts > 0 ? index % accounts : index}@example.com`
      const device = { address: addressOf(index), isKnownDevice: hasKnownDevices }
      if (await attempt({ ...device, account, isChange: isChanging })) attackerSucceeded++
      const turnaroundMs = TURNAROUND_MIN_MS + random() * (TURNAROUND_MAX_MS - TURNAROUND_MIN_MS)
      await sleep(burstEveryMs ? burstEveryMs - (nowMs() % burstEveryMs) : turnaroundMs)
    }
  }

  async function logIn(kind: UserKind, index: number, successes: Successes): Promise<void> {
    await sleep(HEAD_START_MS + (index + random()) * users.everyMs)
    const claim = {
      address: users.addressOf(index, kind),
      account: `${kind} ${index}`,
      isKnownDevice: kind === 'known device',
      isChange: false,
    }
    const endMs = nowMs() + TIME_MS
    for (let isFirst = true; nowMs() < endMs; isFirst = false) {
      if (await attempt(claim)) {
        successes.inTime++
        if (isFirst) successes.first++
        return
      }
      await sleep(RETRY_MS)
    }
  }

  if (attacker) for (let caller = 0; caller < attacker.callers; caller++) void attack(attacker)
  const logInAll = (kind: UserKind, successes: Successes) =>
    Array.from({ length: users.count }, (_, index) => logIn(kind, index, successes))
  const strangers: Successes = { first: 0, inTime: 0 }
  const knownDevices: Successes = { first: 0, inTime: 0 }
  const done = [
    ...logInAll('stranger', strangers),
    ...(users === OFFICE ? [] : logInAll('known device', knownDevices)),
  ]
  await runUntil(Promise.all(done))
  return { strangers, knownDevices, attackerPerSecond: (attackerSucceeded * 1_000) / nowMs() }
}
