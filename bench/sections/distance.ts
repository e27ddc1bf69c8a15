// What the distance to PostgreSQL costs: attempts per second of the store, whose locks last some round trips. Callers of one
// client share the row of its scope, so they wait for each other.
import { randomUUID } from 'node:crypto'
import type { PostgresConfig } from '../../src/config/database.ts'
import type { ThrottleScope } from '../../src/domain/attempt.ts'
import type { Store } from '../../src/domain/store.ts'
import { throttleScopes } from '../../src/login/scopes.ts'
import { openStore } from '../../src/storage/open-store.ts'
import { createDatabase } from '../database.ts'
import { delayLine } from '../delayed-line.ts'
import { type Findings, fixed, type Run } from '../findings.ts'
import { median } from '../statistics.ts'

const DISTANCES_MS = [0, 0.5, 2.2]
/** At least so many failed attempts per second, for 8 callers of one client. */
const LIMITS: Record<number, number> = { 0.5: 300, 2.2: 100 }
const HUGE = 1_000_000_000
const UNLIMITED = { pair: HUGE, email: HUGE, client: HUGE, network: HUGE }
const DAY_MS = 24 * 3_600_000

type Account = { id: string; scopes: ThrottleScope[] }
type Settle = (store: Store, account: Account) => Promise<unknown>

const SETTLE: Record<string, Settle> = {
  fail: (store, { id, scopes }) => store.attempts.fail(scopes, id, new Date()),
  succeed: (store, { id, scopes }) => {
    const [issuedAt, expiresAt] = [new Date(), new Date(Date.now() + DAY_MS)]
    const caller = { userAgent: 'a browser', ip: '::1' }
    const opening = {
      user: { id, passwordHash: 'a hash', factorsVersion: 0 },
      session: { ...caller, amr: ['pwd'], id: randomUUID(), expiresAt, cookieDigest: null },
      refreshToken: { id: randomUUID(), digest: randomUUID(), keyId: 'k', issuedAt, expiresAt },
      device: null,
      displaced: { cookieDigest: null, usedBefore: new Date(0), maxSessions: 10 },
    }
    return store.attempts.succeed(opening, scopes, issuedAt)
  },
}
const CALLERS: [name: string, count: number, clientOf: (caller: number) => string][] = [
  ['1 caller', 1, () => '203.0.113.1'],
  ['8 callers', 8, caller => `203.0.113.${caller}`],
  ['8 callers of one client', 8, () => '203.0.113.1'],
]

export async function measureDistance({ isQuick, progress }: Run): Promise<Findings> {
  const sliceMs = isQuick ? 1_500 : 6_000
  const { config } = await createDatabase('postgres')
  if (config.engine !== 'postgres') throw new Error('only PostgreSQL is at a distance')
  const roundTripsMs: number[] = []
  const figures: { name: string; distanceMs: number; perSecond: number }[] = []
  const ownDelayMs = await measureOwnDelay(config)
  for (const distanceMs of DISTANCES_MS) {
    const line = distanceMs > 0 ? await delayLine(config.url, distanceMs - ownDelayMs) : null
    const store = await openStore({ ...config, url: line?.url ?? config.url })
    roundTripsMs.push(await measureRoundTrip(store))
    for (const [settleName, settle] of Object.entries(SETTLE)) {
      for (const [callersName, count, clientOf] of CALLERS) {
        const name = `reserve and ${settleName}, ${callersName}`
        progress(`${distanceMs} ms: ${name}`)
        const accounts = await Promise.all(
          Array.from({ length: count }, (_, caller) => addAccount(store, clientOf(caller))),
        )
        // The first ones open the connections.
        await countAttempts(store, accounts, settle, 300)
        const perSecond = await countAttempts(store, accounts, settle, sliceMs)
        figures.push({ name, distanceMs, perSecond })
      }
    }
    await store.close()
    await line?.stop()
  }
  const names = [...new Set(figures.map(({ name }) => name))]
  const rateOf = (name: string, distanceMs: number) =>
    figures.find(it => it.name === name && it.distanceMs === distanceMs)?.perSecond ?? Number.NaN
  return {
    title: 'attempts per second of the store on PostgreSQL, by its distance',
    tables: [
      {
        title:
          'Without hashing; each packet and its answer take so much longer than on this machine',
        head: ['', ...DISTANCES_MS.map(ms => `+ ${ms} ms`)],
        rows: [
          ['a statement without work, ms', ...roundTripsMs.map(ms => fixed(ms, 2))],
          ...names.map(name => [name, ...DISTANCES_MS.map(ms => fixed(rateOf(name, ms)))]),
        ],
      },
    ],
    targets: Object.entries(LIMITS).map(([ms, limit]) => ({
      name: `failed attempts per second, 8 callers of one client, ${ms} ms`,
      figure: rateOf('reserve and fail, 8 callers of one client', Number(ms)),
      ...{ digits: 0, unit: '', is: 'at least', limit },
    })),
  }
}

async function addAccount(store: Store, client: string): Promise<Account> {
  const id = randomUUID()
  const email = `${id}@example.com`
  const change = { at: new Date(), by: { kind: 'user', name: 'bench', host: 'bench' } } as const
  const user = { id, email, passwordHash: 'a hash', name: 'Name', role: 'user' }
  await store.users.insert(user, change)
  return { id, scopes: throttleScopes(email, { group: client, network: null }, UNLIMITED) }
}

/** What a line takes by itself. */
async function measureOwnDelay(config: PostgresConfig): Promise<number> {
  const line = await delayLine(config.url, 0)
  const [near, far] = await Promise.all([
    openStore(config),
    openStore({ ...config, url: line.url }),
  ])
  const ownDelayMs = (await measureRoundTrip(far)) - (await measureRoundTrip(near))
  await Promise.all([near.close(), far.close()])
  await line.stop()
  return ownDelayMs
}

async function measureRoundTrip({ maintenance }: Store): Promise<number> {
  const timesMs: number[] = []
  for (let i = 0; i < 200; i++) {
    const startMs = performance.now()
    await maintenance.readClock()
    timesMs.push(performance.now() - startMs)
  }
  return median(timesMs)
}

/** Per second, from attempts that follow each other at each account. */
async function countAttempts(
  store: Store,
  accounts: Account[],
  settle: Settle,
  durationMs: number,
): Promise<number> {
  const startMs = performance.now()
  let done = 0
  await Promise.all(
    accounts.map(async account => {
      while (performance.now() < startMs + durationMs) {
        await store.attempts.reserve(account.scopes, account.id, new Date())
        await settle(store, account)
        done++
      }
    }),
  )
  return (done * 1_000) / (performance.now() - startMs)
}
