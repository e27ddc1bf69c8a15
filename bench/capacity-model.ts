// What a population of users demands of the service: a simulation of their days, and the machines for it.
import type { Table } from './findings.ts'
import { fixed } from './findings.ts'
import { createRandom } from './statistics.ts'

/** Measured by the sections `ceiling`, `refresh` and `capacity`. */
export type Constants = {
  /** Right passwords per second and core, at cost 12. */
  loginsPerCore: number
  /** Processor time of the service. A login's is without its hash. */
  serviceMs: { login: number; refresh: number }
  statements: { login: number; refresh: number }
  walBytes: { login: number; refresh: number }
  /** On disk with all indexes, in PostgreSQL. */
  rowBytes: { user: number; session: number; token: number }
}

export type Demand = {
  users: number
  /** In the busiest minute. */
  loginsPerSecond: number
  refreshesPerSecond: number
  refreshesPerLogin: number
  walBytesPerDay: (constants: Constants) => number
  sessions: number
  tokens: number
}

export const POPULATIONS = [1_000, 1_000_000, 100_000_000]

/** How people use an application that asks for a login. All live in one time zone. */
const ACTIVE_SHARE = 0.5
const START_HOUR = { mean: 9, deviation: 1 }
const MEAN_HOURS = 4
const MOST_HOURS = 14
/** On an active day a user comes with another browser, or logged out the day before. */
const NEW_LOGIN_SHARE = 0.03
const DAYS = 60
/** At first no user is logged in. The counts begin when sessions of every age exist. */
const WARM_UP_DAYS = 31
const SIMULATED = 20_000

const MINUTES_PER_DAY = 24 * 60
const TOKEN_DAYS = 7
const SESSION_DAYS = 30
/** A session that has ended stays for a day. */
const KEPT_DAYS = 1

/** Simulates at most 20,000 users; larger populations are multiples of them. */
export function simulate(users: number): Demand {
  const simulated = Math.min(users, SIMULATED)
  const scale = users / simulated
  const random = createRandom(users)
  const minutes = {
    login: new Uint32Array(MINUTES_PER_DAY),
    refresh: new Uint32Array(MINUTES_PER_DAY),
  }
  let [logins, refreshes] = [0, 0]
  for (let user = 0; user < simulated; user++) {
    let opened = Number.NEGATIVE_INFINITY
    let refreshed = Number.NEGATIVE_INFINITY
    for (let day = 0; day < DAYS; day++) {
      if (random() >= ACTIVE_SHARE) continue
      const start = day * MINUTES_PER_DAY + startMinute(random)
      const hours = Math.min(-Math.log(1 - random()) * MEAN_HOURS, MOST_HOURS)
      for (let hour = 0; hour <= hours; hour++) {
        const at = start + hour * 60
        const isNew = hour === 0 && random() < NEW_LOGIN_SHARE
        const mustLogIn =
          isNew ||
          at - refreshed > TOKEN_DAYS * MINUTES_PER_DAY ||
          at - opened > SESSION_DAYS * MINUTES_PER_DAY
        if (mustLogIn) opened = at
        refreshed = at
        if (day < WARM_UP_DAYS) continue
        const kind = mustLogIn ? 'login' : 'refresh'
        const minute = Math.floor(at) % MINUTES_PER_DAY
        minutes[kind][minute] = (minutes[kind][minute] ?? 0) + 1
        if (mustLogIn) logins++
        else refreshes++
      }
    }
  }
  const days = DAYS - WARM_UP_DAYS
  const perDay = (count: number) => (count / days) * scale
  // Averaged over the days: what a typical day has in its busiest minute.
  const perSecond = (counts: Uint32Array) => (Math.max(...counts) / days / 60) * scale
  return {
    users,
    loginsPerSecond: perSecond(minutes.login),
    refreshesPerSecond: perSecond(minutes.refresh),
    refreshesPerLogin: refreshes / logins,
    walBytesPerDay: ({ walBytes }) =>
      perDay(logins) * walBytes.login + perDay(refreshes) * walBytes.refresh,
    sessions: perDay(logins) * (SESSION_DAYS + KEPT_DAYS),
    tokens: perDay(logins + refreshes) * TOKEN_DAYS,
  }
}

/** Two uniform numbers make a normal one (Box and Muller). */
function startMinute(random: () => number): number {
  const normal = Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random())
  const hour = START_HOUR.mean + START_HOUR.deviation * normal
  return Math.min(Math.max(hour, 0), 23) * 60
}

/** A core that is half busy answers almost as fast as an idle one, and has room for a failed neighbour. */
const USED_SHARE = 0.5
const POOL_SIZE = 10
const CORES_PER_INSTANCE = 8
/** With one instance less the others still serve. */
const LEAST_INSTANCES = 2

export function capacityTable(constants: Constants): Table {
  const { loginsPerCore, serviceMs, statements, rowBytes } = constants
  const columns = POPULATIONS.map(simulate).map(demand => {
    const { users, loginsPerSecond, refreshesPerSecond, sessions, tokens } = demand
    const hashCores = loginsPerSecond / loginsPerCore
    const otherCores =
      (loginsPerSecond * serviceMs.login + refreshesPerSecond * serviceMs.refresh) / 1_000
    const cores = (hashCores + otherCores) / USED_SHARE
    const instances = Math.max(LEAST_INSTANCES, Math.ceil(cores / CORES_PER_INSTANCE) + 1)
    const bytes = users * rowBytes.user + sessions * rowBytes.session + tokens * rowBytes.token
    return [
      inUnits(users, NUMBERS),
      perSecondOf(loginsPerSecond),
      perSecondOf(refreshesPerSecond),
      fixed(demand.refreshesPerLogin),
      fixed(cores, 1),
      fixed(instances),
      fixed(instances * POOL_SIZE),
      perSecondOf(loginsPerSecond * statements.login + refreshesPerSecond * statements.refresh),
      inUnits(demand.walBytesPerDay(constants), BYTES),
      inUnits(sessions, NUMBERS),
      inUnits(tokens, NUMBERS),
      inUnits(bytes, BYTES),
    ]
  })
  const names = [
    'users',
    'logins per second, busiest minute',
    'refreshes per second, busiest minute',
    'refreshes per login',
    'cores of the service, half of each in reserve',
    'instances of 8 cores, one in reserve',
    'connections to the database',
    'statements per second',
    'write-ahead log per day',
    'rows of sessions',
    'rows of refresh tokens',
    'size of the tables and indexes',
  ]
  const [head, ...rows] = names.map((name, row) => [
    name,
    ...columns.map(cells => cells[row] ?? ''),
  ])
  return { title: 'What a population demands', head: head ?? [], rows }
}

function perSecondOf(rate: number): string {
  return rate >= 10 ? Math.round(rate).toLocaleString('en') : rate.toPrecision(2)
}

const NUMBERS = { ' billion': 1e9, ' million': 1e6, ' thousand': 1e3, '': 1 }
const BYTES = { ' TB': 1e12, ' GB': 1e9, ' MB': 1e6, ' KB': 1e3 }

/** With two digits, in the largest unit that is not above the value. */
function inUnits(value: number, units: Record<string, number>): string {
  const [unit = '', size = 1] = Object.entries(units).find(([, size]) => value >= size) ?? []
  return `${Number((value / size).toPrecision(2))}${unit}`
}
