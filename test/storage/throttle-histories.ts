// Generated histories of attempts, locks, purges and clocks, run on an engine and on the model.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { DatabaseSync } from 'node:sqlite'
import fc from 'fast-check'
import pg from 'pg'
import type { DatabaseConfig } from '../../src/config/database.ts'
import type { Reservation, ScopeName, ThrottleScope } from '../../src/domain/attempt.ts'
import type { Store } from '../../src/domain/store.ts'
import { type ScopeState as ReadScope, waitsUntil } from '../../src/domain/throttle.ts'
import type { User } from '../../src/domain/user.ts'
import type { EngineName } from '../../src/storage/sql/engine.ts'
import { digestOf } from '../../src/system/identifiers.ts'
import { createMigratedDatabase, openPatientStore, type Row } from '../support/engines.ts'
import { byEmail, changeAt, openFor } from './fixtures.ts'
import { type Expected, type ScopeState, ThrottleModel, type UserState } from './throttle-model.ts'

const SECOND = 1_000
const MINUTE = 60 * SECOND
const HOUR = 60 * MINUTE
const DAY = 24 * HOUR
/** Summer time begins 7 hours later in the time zone of the PostgreSQL sessions: that day has 23 hours. */
const START = Date.parse('2030-03-10T00:00:00Z')
/** No history restarts the server, so commits need not reach the disk. */
const POSTGRES_OPTIONS = '-c timezone=America/New_York -c synchronous_commit=off'
const VERIFIED_HASH = 'a hash'

const EMAILS = ['ann@example.com', 'ben@example.com', 'unknown@example.com'] as const
const USERS: [string, UserState][] = EMAILS.slice(0, 2).map(email => [
  email,
  {
    ...{ id: randomUUID(), passwordHash: VERIFIED_HASH, failedLoginAttempts: 0 },
    ...{ lockedUntil: null, lockedBy: null },
  },
])
/** A client in no network, two in one network, one in another. */
const NETWORKS = [null, 'n1', 'n1', 'n2'] as const

type Budgets = Record<ScopeName | 'day', number>
type Attempt = { email: string; scopes: ThrottleScope[] }
type Settlement = 'fail' | 'succeed' | 'succeed with an old hash' | 'release'

/** Moves the clock to an end (of a lease, window, block, row or lock, or that forgives a failure) that the operation reads. */
type Jump = {
  end: number
  /** 2: to the earliest clock that believes the end. An end further away than two spans is ignored. */
  spansBefore: 0 | 2
  offsetMs: number
}
/** The jump moves the clock of all machines; `aheadMs` is the error of this machine's clock. */
type Timing = { jump: Jump | null; aheadMs: number }

type Step =
  | ({
      kind: 'attempt'
      email: number
      client: number
      isDevice: boolean
      /** Null leaves the attempt pending. */
      settlement: Settlement | null
    } & Timing)
  | ({ kind: 'settle'; attempt: number; settlement: Settlement } & Timing)
  | ({ kind: 'purge' } & Timing)
  | { kind: 'wait'; ms: number }
  | { kind: 'unlock'; email: number }
  | { kind: 'clear'; email: number; client: number; isOfClient: boolean }
  | { kind: 'lock'; email: number; forMs: number }

const index = fc.nat(19)
const timing = {
  jump: fc.oneof(
    { weight: 1, arbitrary: fc.constant(null) },
    {
      weight: 1,
      arbitrary: fc.record({
        end: index,
        spansBefore: fc.constantFrom(0, 0, 0, 2),
        offsetMs: fc.constantFrom(-1, 0, 0, 1),
      }),
    },
  ),
  aheadMs: fc.oneof(
    { weight: 14, arbitrary: fc.constant(0) },
    { weight: 1, arbitrary: fc.constantFrom(-HOUR, -10 * MINUTE, -SECOND, SECOND, 5 * MINUTE) },
    { weight: 1, arbitrary: fc.constantFrom(20 * MINUTE, HOUR, DAY, 3 * DAY, 40 * DAY) },
  ),
}
const settlement = fc.oneof(
  { weight: 7, arbitrary: fc.constant('fail' as const) },
  { weight: 2, arbitrary: fc.constant('succeed' as const) },
  { weight: 1, arbitrary: fc.constantFrom('succeed with an old hash', 'release') },
)
const attempt = fc.record({
  kind: fc.constant('attempt' as const),
  // Most attempts share a scope, so that its failures are used up.
  email: fc.constantFrom(0, 0, 0, 1, 2),
  client: fc.constantFrom(0, 1, 1, 2, 3),
  isDevice: fc.constantFrom(false, false, false, true),
  settlement: fc.option(settlement, { freq: 1 }),
  ...timing,
})
const settle = fc.record({
  kind: fc.constant('settle' as const),
  attempt: index,
  settlement,
  ...timing,
})
const purge = fc.record({ kind: fc.constant('purge' as const), ...timing })
const wait = fc.record({
  kind: fc.constant('wait' as const),
  ms: fc.oneof(
    { weight: 3, arbitrary: fc.constantFrom(1, SECOND, 30 * SECOND, 5 * MINUTE, 15 * MINUTE) },
    { weight: 1, arbitrary: fc.constantFrom(HOUR, DAY, 2 * DAY) },
    { weight: 1, arbitrary: fc.constantFrom(-SECOND, -2 * MINUTE, -20 * MINUTE) },
  ),
})
const unlock = fc.record({ kind: fc.constant('unlock' as const), email: fc.nat(2) })
const clear = fc.record({
  kind: fc.constant('clear' as const),
  email: fc.nat(2),
  client: fc.nat(3),
  isOfClient: fc.boolean(),
})
const lock = fc.record({
  kind: fc.constant('lock' as const),
  email: fc.nat(2),
  forMs: fc.constantFrom(SECOND, 5 * MINUTE, HOUR),
})
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 12, arbitrary: attempt },
  { weight: 6, arbitrary: settle },
  { weight: 1, arbitrary: wait },
  { weight: 2, arbitrary: fc.oneof(purge, unlock, lock, clear) },
)
const upTo = (max: number) => fc.integer({ min: 1, max })
const histories = fc.record({
  budgets: fc.record({
    ...{ pair: upTo(3), email: upTo(3), client: upTo(5), network: upTo(6), device: upTo(2) },
    day: upTo(5),
  }),
  steps: fc.array(step, { minLength: 1, maxLength: 40, size: 'max' }),
})

/** Fails with the shortest history after which the engine and the model differ, and its seed. */
export async function checkHistories(engine: EngineName, numRuns: number): Promise<void> {
  const database = await createMigratedDatabase(engine)
  const direct = await connect(database.config)
  const store = await openPatientStore(withOptions(database.config))
  try {
    for (const [email, { id, passwordHash }] of USERS) {
      const user = { id, email, passwordHash, name: 'Name', role: 'user' }
      await store.users.insert(user, changeAt(new Date(START)))
    }
    const goesAsInTheModel = fc.asyncProperty(histories, async ({ budgets, steps }) => {
      await direct.reset()
      await runHistory(budgets, steps, store, direct)
    })
    await fc.assert(goesAsInTheModel, { numRuns })
  } finally {
    await store.close()
    await direct.close()
    await database.drop()
  }
}

function withOptions(config: DatabaseConfig): DatabaseConfig {
  if (config.engine === 'sqlite') return config
  const url = new URL(config.url)
  url.searchParams.set('options', POSTGRES_OPTIONS)
  return { ...config, url: url.toString() }
}

async function runHistory(
  budgets: Budgets,
  steps: Step[],
  store: Store,
  direct: Direct,
): Promise<void> {
  const model = new ThrottleModel(USERS)
  const pending: Attempt[] = []
  let now = START

  /** The time of an operation on these scopes and this user. */
  function timeOf({ jump, aheadMs }: Timing, keys: Iterable<string>, email?: string): number {
    const ends = endsOf(model, budgets, keys, email)
    const chosen = jump && ends[jump.end % ends.length]
    if (chosen) now = chosen.moment - jump.spansBefore * chosen.spanMs + jump.offsetMs
    return now + aheadMs
  }

  async function settleBoth({ email, scopes }: Attempt, how: Settlement, at: number) {
    const moment = new Date(at)
    const id = model.users.get(email)?.id ?? null
    if (how === 'release') {
      await store.attempts.release(scopes)
      model.release(scopes)
    } else if (how === 'fail' || id === null) {
      // An email without a user can only fail.
      const failures = await store.attempts.fail(scopes, id, moment)
      assert.equal(failures, model.fail(scopes, email, at))
    } else {
      const passwordHash = how === 'succeed' ? VERIFIED_HASH : 'an old hash'
      const isOpen = await openFor(store, { id, passwordHash }, scopes, moment)
      assert.equal(isOpen, model.succeed(scopes, email, passwordHash, at))
    }
  }

  async function perform(step: Step): Promise<void> {
    switch (step.kind) {
      case 'attempt': {
        const email = emailAt(step.email)
        const scopes = scopesOf(budgets, email, step.client, step.isDevice)
        const at = timeOf(step, keysOf(scopes), email)
        const read = await store.throttle.read(scopes, new Date(at))
        const reservation = await store.attempts.reserve(scopes, email, new Date(at))
        const expected = model.reserve(scopes, email, at)
        assert.deepEqual(toExpected(reservation), expected)
        const { kind } = expected
        const blocked = kind === 'blocked' ? { blockedUntil: expected.blockedUntil } : {}
        assert.deepEqual(predict(read, at), { kind, ...blocked })
        if (expected.kind !== 'admitted') return
        if (step.settlement === null) pending.push({ email, scopes })
        else await settleBoth({ email, scopes }, step.settlement, at)
        return
      }
      case 'settle': {
        const [attempt] = pending.splice(step.attempt % Math.max(1, pending.length), 1)
        if (!attempt) return
        const at = timeOf(step, keysOf(attempt.scopes), attempt.email)
        await settleBoth(attempt, step.settlement, at)
        return
      }
      case 'wait':
        now += step.ms
        return
      case 'unlock': {
        const email = emailAt(step.email)
        const isUnlocked = await byEmail(store).unlock(email, changeAt(new Date(now)))
        assert.equal(isUnlocked, model.unlock(email, digestOf(email)))
        return
      }
      case 'clear': {
        const email = emailAt(step.email)
        if (step.isOfClient) {
          const scopes = scopesOf(budgets, email, step.client, false).filter(
            ({ emailDigest }) => emailDigest === null,
          )
          await store.throttle.clear(keysOf(scopes), 'client', changeAt(new Date(now)))
          model.clearClient(scopes)
        } else {
          await store.throttle.clearOfEmail(email, changeAt(new Date(now)))
          model.clearEmail(email, digestOf(email))
        }
        return
      }
      case 'lock': {
        const email = emailAt(step.email)
        const isLocked = await byEmail(store).lock(
          email,
          new Date(now + step.forMs),
          changeAt(new Date(now)),
        )
        assert.equal(isLocked, model.lock(email, now + step.forMs))
        return
      }
      case 'purge': {
        const at = timeOf(step, model.scopes.keys())
        const purged = await store.maintenance.purge(new Date(at))
        assert.equal(purged?.throttleRows, model.purge(at))
      }
    }
  }

  for (const step of steps) {
    await perform(step)
    if (step.kind === 'wait') continue
    assert.deepEqual(await direct.scopes(), model.scopes)
    assert.deepEqual(await direct.users(), model.users)
  }
}

/** What the scopes, as an administrator reads them, say of the next attempt. */
function predict(states: ReadScope[], now: number) {
  if (states.some(state => waitsUntil(state, new Date(now)))) {
    const ends = states.map(({ blockedUntil, failures, budget }) =>
      blockedUntil ? blockedUntil.getTime() : failures >= budget ? now + 15 * MINUTE : 0,
    )
    return { kind: 'blocked', blockedUntil: Math.max(...ends) }
  }
  const isBusy = states.some(({ failures, pending, budget }) => failures + pending >= budget)
  return { kind: isBusy ? 'busy' : 'admitted' }
}

/** The distinct ends that an operation on these scopes and this user reads, with their spans. */
function endsOf(model: ThrottleModel, { day }: Budgets, keys: Iterable<string>, email?: string) {
  const ends = new Map<number | null | undefined, number>()
  if (email !== undefined) ends.set(model.users.get(email)?.lockedUntil, 0)
  for (const key of keys) {
    const state = model.scopes.get(key)
    if (!state) continue
    if (state.pending > 0) ends.set(state.leaseEndsAt, MINUTE)
    ends.set(state.expiresAt, 0)
    ends.set(state.windowEndsAt, 15 * MINUTE).set(state.blockedUntil, 15 * MINUTE)
    // For each number of failures for the day, the moment at which one more is forgiven; 0 is the last one.
    for (let left = 0; state.clearsAt !== null && left <= day; left++) {
      ends.set(state.clearsAt - left * 15 * MINUTE, 0)
    }
    ends.set(state.clearsAt, day * 15 * MINUTE)
  }
  return Array.from(ends, ([moment, spanMs]) => (moment ? [{ moment, spanMs }] : [])).flat()
}

function keysOf(scopes: ThrottleScope[]): string[] {
  return scopes.map(({ key }) => key)
}

function emailAt(position: number): string {
  return EMAILS[position % EMAILS.length] ?? ''
}

function scopesOf(
  budgets: Budgets,
  email: string,
  client: number,
  isDevice: boolean,
): ThrottleScope[] {
  const network = NETWORKS[client] ?? null
  const toScope = (name: ScopeName, counted: string, isOfEmail: boolean): ThrottleScope => ({
    name,
    // Readable, in the length of a digest.
    key: `${name} ${counted}`.padEnd(64, '.'),
    emailDigest: isOfEmail ? digestOf(email) : null,
    maxFailures: budgets[name],
    maxDailyFailures: name === 'email' ? budgets.day : null,
  })
  if (isDevice) return [toScope('device', email, true)]
  return [
    toScope('pair', `${email} ${client}`, true),
    toScope('email', email, true),
    toScope('client', String(client), false),
    ...(network === null ? [] : [toScope('network', network, false)]),
  ]
}

function toExpected(reservation: Reservation): Expected {
  switch (reservation.kind) {
    case 'admitted':
    case 'busy':
      return { ...reservation, user: reservation.user && toUserState(reservation.user) }
    case 'blocked':
      return { ...reservation, blockedUntil: reservation.blockedUntil.getTime() }
  }
}

function toUserState({ id, passwordHash, failedLoginAttempts, ...user }: User): UserState {
  const lockedUntil = user.lockedUntil?.getTime() ?? null
  return { id, passwordHash, failedLoginAttempts, lockedUntil, lockedBy: user.lockedBy }
}

/** Reads the rows on a connection of its own, not through the store. */
type Direct = {
  reset: () => Promise<void>
  scopes: () => Promise<Map<string, ScopeState>>
  users: () => Promise<Map<string, UserState>>
  close: () => Promise<void>
}

async function connect(config: DatabaseConfig): Promise<Direct> {
  const { query, close } =
    config.engine === 'sqlite' ? connectToSqlite(config.file) : await connectToPostgres(config.url)
  return {
    async reset() {
      for (const table of ['login_throttle', 'refresh_tokens', 'sessions']) {
        await query(`delete from ${table}`)
      }
      await query(
        'update users set failed_login_attempts = 0, locked_until = null, locked_by = null',
      )
    },
    async scopes() {
      const rows = await query('select * from login_throttle')
      return new Map(rows.map(row => [String(row.key), toScopeState(row)]))
    },
    async users() {
      const rows = await query('select * from users')
      return new Map(
        rows.map(row => [
          String(row.email),
          {
            ...{ id: String(row.id), passwordHash: String(row.password_hash) },
            failedLoginAttempts: Number(row.failed_login_attempts),
            lockedUntil: toMs(row.locked_until),
            lockedBy: row.locked_by as UserState['lockedBy'],
          },
        ]),
      )
    },
    close,
  }
}

function connectToSqlite(file: string) {
  const database = new DatabaseSync(file, { timeout: 5_000 })
  return {
    query: async (statement: string): Promise<Row[]> => database.prepare(statement).all(),
    close: async () => database.close(),
  }
}

async function connectToPostgres(url: string) {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  return {
    query: async (statement: string) => (await client.query<Row>(statement)).rows,
    close: () => client.end(),
  }
}

function toScopeState(row: Row): ScopeState {
  return {
    scope: row.scope as ScopeName,
    emailDigest: row.email_digest as string | null,
    failures: Number(row.failures),
    pending: Number(row.pending),
    leaseEndsAt: toMs(row.lease_ends_at) ?? 0,
    windowEndsAt: toMs(row.window_ends_at) ?? 0,
    blockedUntil: toMs(row.blocked_until),
    clearsAt: toMs(row.clears_at),
    expiresAt: toMs(row.expires_at) ?? 0,
  }
}

function toMs(stored: unknown): number | null {
  return stored === null ? null : new Date(stored as Date | string).getTime()
}
