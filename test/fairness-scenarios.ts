// Users who log in while an attacker floods the service, in simulated time.
import { simulateLogins } from './simulated-logins.ts'

export type Scenario = {
  name: string
  attacker: Attacker | null
  /** Alone: each has an address of its own. Office: all come at once, from one address. */
  users: Users
}
type Attacker = {
  /** The address of this attempt, counted over all callers. */
  addressOf: (index: number) => string
  /** Its own accounts, which it uses with the right passwords. Zero: a new email for each attempt. */
  accounts: number
  hasKnownDevices: boolean
  callers: number
  /** All callers send one attempt at the same moment, and so on; without it, each repeats after every answer. */
  burstEveryMs?: number
}
type Users = {
  count: number
  everyMs: number
  addressOf: (index: number, kind: UserKind) => string
}
type UserKind = 'stranger' | 'known device'

/** How many of the users succeeded with their first attempt, and within TIME_MS. */
export type Successes = { first: number; inTime: number; of: number }
export type Figures = Record<UserKind, Successes> & { attackerPerSecond: number }

const SEED = 1
/** Users wait for the second that Retry-After asks for, and repeat for this long. */
export const TIME_MS = 10_000
const RETRY_MS = 1_000
/** From its refusal to the next attempt of an attacker's caller. */
const [TURNAROUND_MIN_MS, TURNAROUND_MAX_MS] = [15, 45]
/** Before the first user comes, the attacker has used all that it can. */
const HEAD_START_MS = 6_000

const inNetworks = (networks: number) => (index: number) => `10.1.${index % networks}.1`
const in24 = (index: number) => `10.2.0.${1 + (index % 254)}`
const in48 = (index: number) => `2001:db8:2:${(index % 65_536).toString(16)}::1`
const FLOOD = { accounts: 0, hasKnownDevices: false, callers: 20 }
const OWNER = { hasKnownDevices: true, callers: 20 }
const ONE = inNetworks(1)

const ALONE: Users = {
  count: 30,
  everyMs: 700,
  addressOf: (index, kind) => `10.${kind === 'stranger' ? 3 : 4}.${index}.1`,
}
const OFFICE: Users = { count: 40, everyMs: 0, addressOf: () => '10.5.0.1' }
/** In the network of the attacker with one address, and behind that address. */
const NEIGHBOURS: Users = {
  ...ALONE,
  addressOf: (index, kind) => `10.1.0.${(kind === 'stranger' ? 100 : 200) + index}`,
}
const BEHIND: Users = { ...ALONE, addressOf: ONE }

const attacked = (name: string, attacker: Attacker, users = ALONE): Scenario => ({
  ...{ name, attacker, users },
})

/** Those that the service promises to withstand. */
export const WITHSTOOD: Scenario[] = [
  attacked('one address, one account', { ...FLOOD, addressOf: ONE, accounts: 1 }),
  attacked('one address, 200 callers, no accounts', { ...FLOOD, addressOf: ONE, callers: 200 }),
  ...[8, 10, 20].map(accounts =>
    attacked(`one address, ${accounts} accounts with known devices`, {
      ...{ ...OWNER, addressOf: ONE, accounts, callers: accounts },
    }),
  ),
  attacked(
    'the same, and the users have addresses in its /24',
    {
      ...{ ...OWNER, addressOf: ONE, accounts: 20 },
      ...{},
    },
    NEIGHBOURS,
  ),
  attacked(
    'the same, and the users have its address',
    { ...OWNER, addressOf: ONE, accounts: 20 },
    BEHIND,
  ),
  attacked('ten addresses, 10 accounts with known devices', {
    ...{ ...OWNER, addressOf: inNetworks(10), accounts: 10 },
  }),
  attacked('the same, 20 at once every 5 seconds', {
    ...{ ...OWNER, addressOf: inNetworks(10), accounts: 10, burstEveryMs: 5_001 },
  }),
  attacked('a /24, no accounts', { ...FLOOD, addressOf: in24 }),
  attacked('a /24, 10 accounts with known devices', { ...OWNER, addressOf: in24, accounts: 10 }),
  attacked('a /24, 254 accounts with known devices', { ...OWNER, addressOf: in24, accounts: 254 }),
  attacked('an IPv6 /48, no accounts', { ...FLOOD, addressOf: in48 }),
  attacked('an IPv6 /48, 20 accounts with known devices', {
    ...OWNER,
    addressOf: in48,
    accounts: 20,
  }),
]

export const OFFICES: Scenario[] = [
  { name: 'no attacker', attacker: null, users: OFFICE },
  attacked('one address, no accounts', { ...FLOOD, addressOf: ONE }, OFFICE),
  attacked(
    'one address, 10 accounts with known devices',
    {
      ...{ ...OWNER, addressOf: ONE, accounts: 10 },
    },
    OFFICE,
  ),
]

/** The limits: about as many networks as hashes are remembered. */
export const BEYOND: Scenario[] = [
  ...[50, 100].map(networks =>
    attacked(`${networks} networks, no accounts`, { ...FLOOD, addressOf: inNetworks(networks) }),
  ),
  ...[50, 100].map(networks =>
    attacked(`${networks} networks, ${networks} accounts with known devices`, {
      ...{ ...OWNER, addressOf: inNetworks(networks), accounts: networks },
    }),
  ),
]

export async function playScenario({ attacker, users }: Scenario, seed = SEED): Promise<Figures> {
  const { attempt, sleep, nowMs, runUntil, random } = simulateLogins(seed)
  let sent = 0
  let attackerSucceeded = 0

  async function attack({ addressOf, accounts, hasKnownDevices, burstEveryMs }: Attacker) {
    if (!burstEveryMs) await sleep(random() * TURNAROUND_MAX_MS)
    for (;;) {
      const index = sent++
      const account = `attacker${accounts > 0 ? index % accounts : index}@example.com`
      const claim = { address: addressOf(index), account, isKnownDevice: hasKnownDevices }
      if (await attempt(claim)) attackerSucceeded++
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

  const none = { first: 0, inTime: 0, of: users.count }
  const figures: Figures = {
    stranger: { ...none },
    'known device': { ...none },
    attackerPerSecond: 0,
  }
  const kinds = users === OFFICE ? (['stranger'] as const) : (['stranger', 'known device'] as const)
  if (attacker) for (let i = 0; i < attacker.callers; i++) void attack(attacker)
  const done = kinds.flatMap(kind =>
    Array.from({ length: users.count }, (_, index) => logIn(kind, index, figures[kind])),
  )
  await runUntil(Promise.all(done))
  figures.attackerPerSecond = (attackerSucceeded * 1_000) / nowMs()
  return figures
}
