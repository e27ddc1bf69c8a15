// Generated histories of attempts, locks, purges and clocks, run on an engine and on the model.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, test } from 'node:test'
import fc from 'fast-check'
import type { DatabaseConfig } from '../../src/config/database.ts'
import type { ScopeName, ThrottleScope } from '../../src/domain/attempt.ts'
import type { Store } from '../../src/domain/store.ts'
import { waitsUntil } from '../../src/domain/throttle.ts'
import type { User } from '../../src/domain/user.ts'
import type { EngineName } from '../../src/storage/sql/engine.ts'
import { keysOf } from '../../src/storage/sql/throttle-rows.ts'
import { digestOf } from '../../src/system/identifiers.ts'
import { keepConnection } from '../operation/kept-connection.ts'
import {
  createMigratedDatabase,
  ENGINES,
  openPatientStore,
  type TestDatabase,
} from '../support/engines.ts'
import { byEmail, changeAt, openFor } from './fixtures.ts'
import { ThrottleModel, type UserState } from './throttle-model.ts'

const SECOND = 1_000
const MINUTE = 60 * SECOND
const HOUR = 60 * MINUTE
const DAY = 24 * HOUR
/** Summer time begins 7 hours later in the time zone of the PostgreSQL sessions: that day has 23 hours. */
const START = Date.parse('2030-03-10T00:00:00Z')
/** No history restarts the server, so commits need not reach the disk. */
const POSTGRES_OPTIONS = '-c timezone=America/New_York -c synchronous_commit=off'
const TIME = /^\d{4}-\d\d-\d\dT[\d:.]+Z$/
const VERIFIED_HASH = 'a hash'

const EMAILS = ['ann@example.com', 'ben@example.com', 'unknown@example.com']
const USERS = EMAILS.slice(0, 2).map((email): [string, UserState] => [
  email,
  {
    ...{ id: randomUUID(), passwordHash: VERIFIED_HASH, failedLoginAttempts: 0 },
    ...{ lockedUntil: null, lockedBy: null },
  },
])
/** A client in no network, two in one network, one in another. */
const NETWORKS = [null, 'n1', 'n1', 'n2']

/** The columns of the model; times are text in SQLite and dates in PostgreSQL. */
const SELECT_SCOPES = `select key, scope, email_digest as "emailDigest", failures, pending,
  lease_ends_at as "leaseEndsAt", window_ends_at as "windowEndsAt", blocked_until as "blockedUntil",
  clears_at as "clearsAt", expires_at as "expiresAt" from login_throttle`
const SELECT_USERS = `select email as key, id, password_hash as "passwordHash", locked_by as "lockedBy",
  failed_login_attempts as "failedLoginAttempts", locked_until as "lockedUntil" from users`

const index = fc.nat(19)
const timing = {
  /** Moves the clock of all machines to an end (of a lease, window, block, row or lock, or that forgives a failure). */
  jump: fc.option(
    fc.record({
      end: index,
      /** 2: to the earliest clock that believes the end. An end further away than two spans is ignored. */
      spansBefore: fc.constantFrom(0, 0, 0, 2),
      offsetMs: fc.constantFrom(-1, 0, 0, 1),
    }),
    { freq: 1 },
  ),
  /** The error of this machine's clock. */
  aheadMs: fc.oneof(
    { weight: 14, arbitrary: fc.constant(0) },
    { weight: 1, arbitrary: fc.constantFrom(-HOUR, -10 * MINUTE, -SECOND, SECOND, 5 * MINUTE) },
    { weight: 1, arbitrary: fc.constantFrom(20 * MINUTE, HOUR, DAY, 3 * DAY, 40 * DAY) },
  ),
}
const settlement = fc.oneof(
  { weight: 7, arbitrary: fc.constant('fail') },
  { weight: 2, arbitrary: fc.constant('succeed') },
  { weight: 3, arbitrary: fc.constantFrom('pass', 'pass and note') },
  { weight: 1, arbitrary: fc.constantFrom('succeed with an old hash', 'release') },
)
const attempt = fc.record({
  kind: fc.constant('attempt'),
  // Most attempts share a scope, so that its failures are used up.
  email: fc.constantFrom(0, 0, 0, 1, 2),
  client: fc.constantFrom(0, 1, 1, 2, 3),
  isDevice: fc.constantFrom(false, false, false, true),
  /** Null leaves the attempt pending. */
  settlement: fc.option(settlement, { freq: 1 }),
  ...timing,
})
const settle = fc.record({ kind: fc.constant('settle'), attempt: index, settlement, ...timing })
const wait = fc.record({
  kind: fc.constant('wait'),
  ms: fc.oneof(
    { weight: 3, arbitrary: fc.constantFrom(1, SECOND, 30 * SECOND, 5 * MINUTE, 15 * MINUTE) },
    { weight: 1, arbitrary: fc.constantFrom(HOUR, DAY, 2 * DAY) },
    { weight: 1, arbitrary: fc.constantFrom(-SECOND, -2 * MINUTE, -20 * MINUTE) },
  ),
})
const email = fc.nat(2)
const change = fc.oneof(
  fc.record({ kind: fc.constant('purge'), ...timing }),
  fc.record({ kind: fc.constantFrom('unlock', 'clear email'), email }),
  fc.record({ kind: fc.constant('lock'), email, forMs: fc.constantFrom(SECOND, 5 * MINUTE, HOUR) }),
  fc.record({ kind: fc.constant('clear client'), client: fc.nat(3) }),
)
const step = fc.oneof(
  { weight: 12, arbitrary: attempt },
  { weight: 6, arbitrary: settle },
  { weight: 1, arbitrary: wait },
  { weight: 2, arbitrary: change },
)
const upTo = (max: number) => fc.integer({ min: 1, max })
const histories = fc.record({
  budgets: fc.record({
    ...{ pair: upTo(3), email: upTo(3), client: upTo(5), network: upTo(6), device: upTo(2) },
    day: upTo(5),
  }),
  steps: fc.array(step, { minLength: 1, maxLength: 40, size: 'max' }),
})

type ValueOf<Generator> = Generator extends fc.Arbitrary<infer Value> ? Value : never
type History = ValueOf<typeof histories>
type Budgets = History['budgets']
type Settlement = ValueOf<typeof settlement>
type Attempt = { email: string; scopes: ThrottleScope[] }
type Timing = Pick<ValueOf<typeof settle>, keyof typeof timing>

/** Each way to settle an attempt, after a failure. */
const EVERY_SETTLEMENT: History = {
  budgets: { pair: 9, email: 9, client: 9, network: 9, device: 9, day: 9 },
  steps: (['succeed', 'pass', 'pass and note', 'succeed with an old hash', 'release'] as const)
    .flatMap(settlement => ['fail' as const, settlement])
    .map(settlement => ({
      ...{ kind: 'attempt', email: 0, client: 1, isDevice: false, settlement },
      ...{ jump: null, aheadMs: 0 },
    })),
}

/** Runs so many histories on each engine. Fails with the shortest after which engine and model differ, and its seed. */
export function proveHistories(runs: Record<EngineName, number>): void {
  for (const engine of ENGINES) {
    test(`${runs[engine]} histories of attempts on ${engine} go as in the model`, async () => {
      const { rows, config, drop } = await keepConnection(await createMigratedDatabase(engine))
      const store = await openPatientStore(withOptions(config))
      after(store.close)
      after(drop)
      for (const [email, { id, passwordHash }] of USERS) {
        const user = { id, email, passwordHash, name: 'Name', role: 'user' }
        await store.users.insert(user, changeAt(new Date(START)))
      }
      const goesAsInTheModel = fc.asyncProperty(histories, async history => {
        for (const table of ['login_throttle', 'refresh_tokens', 'sessions']) {
          await rows(`delete from ${table}`)
        }
        await rows(
          'update users set failed_login_attempts = 0, locked_until = null, locked_by = null',
        )
        await runHistory(history, store, rows)
      })
      await fc.assert(goesAsInTheModel, { numRuns: runs[engine], examples: [[EVERY_SETTLEMENT]] })
    })
  }
}

function withOptions(config: DatabaseConfig): DatabaseConfig {
  if (config.engine === 'sqlite') return config
  const url = new URL(config.url)
  url.searchParams.set('options', POSTGRES_OPTIONS)
  return { ...config, url: url.toString() }
}

type Rows = TestDatabase['rows']

async function runHistory({ budgets, steps }: History, store: Store, rows: Rows): Promise<void> {
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
      const { failures } = await store.attempts.fail(scopes, id, moment)
      assert.equal(failures, model.fail(scopes, email, at))
    } else if (how.startsWith('pass')) {
      const noted = { userId: id, at: moment, ip: '::1', userAgent: 'a browser' }
      await store.attempts.pass(scopes, how === 'pass' ? undefined : noted)
      model.pass(scopes, how === 'pass' ? null : email, at)
    } else {
      const passwordHash = how === 'succeed' ? VERIFIED_HASH : 'an old hash'
      const isOpen = await openFor(store, { id, passwordHash }, scopes, moment)
      assert.equal(isOpen, model.succeed(scopes, email, passwordHash, at))
    }
  }

  async function perform(step: History['steps'][number]): Promise<void> {
    const email = 'email' in step ? (EMAILS[step.email] ?? '') : ''
    const change = changeAt(new Date(now))
    switch (step.kind) {
      case 'attempt': {
        const scopes = scopesOf(budgets, email, step.client, step.isDevice)
        const at = timeOf(step, keysOf(scopes), email)
        const read = await store.throttle.read(scopes, new Date(at))
        assert.deepEqual(read.map(inMs), model.read(scopes, at))
        const reservation = await store.attempts.reserve(scopes, email, new Date(at))
        const expected = model.reserve(scopes, email, at)
        const user = 'user' in reservation ? { user: toUserState(reservation.user) } : {}
        assert.deepEqual({ ...inMs(reservation), ...user }, expected)
        // As an administrator is told.
        const mustWait = read.some(state => waitsUntil(state, new Date(at)))
        assert.equal(mustWait, expected.kind === 'blocked')
        if (expected.kind !== 'admitted') return
        if (step.settlement === null) pending.push({ email, scopes })
        else await settleBoth({ email, scopes }, step.settlement, at)
        return
      }
      case 'settle': {
        const [attempt] = pending.splice(step.attempt % Math.max(1, pending.length), 1)
        if (!attempt) return
        const at = timeOf(step, keysOf(attempt.scopes), attempt.email)
        return settleBoth(attempt, step.settlement, at)
      }
      case 'wait':
        now += step.ms
        return
      case 'unlock':
        assert.equal(
          (await byEmail(store).unlock(email, change)) !== null,
          model.unlock(email, digestOf(email)),
        )
        return
      case 'clear email':
        await store.throttle.clearOfEmail(email, change)
        model.clearEmail(email, digestOf(email))
        return
      case 'clear client': {
        const scopes = scopesOf(budgets, '', step.client, false).filter(it => !it.emailDigest)
        await store.throttle.clear(keysOf(scopes), 'client', change)
        model.clearClient(scopes)
        return
      }
      case 'lock': {
        const until = now + step.forMs
        const isLocked = await byEmail(store).lock(email, new Date(until), change)
        assert.equal(isLocked !== null, model.lock(email, until))
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
    assert.deepEqual(await rowsByKey(rows, SELECT_SCOPES), model.scopes)
    assert.deepEqual(await rowsByKey(rows, SELECT_USERS), model.users)
  }
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

function scopesOf(budgets: Budgets, email: string, client: number, isDevice: boolean) {
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

function toUserState(user: User | null): UserState | null {
  if (!user) return null
  const { id, passwordHash, failedLoginAttempts, lockedBy } = user
  const lockedUntil = user.lockedUntil?.getTime() ?? null
  return { id, passwordHash, failedLoginAttempts, lockedUntil, lockedBy }
}

async function rowsByKey(rows: Rows, statement: string) {
  const found = await rows(statement)
  return new Map(found.map(({ key, ...row }) => [key, inMs(row)]))
}

/** With every time in milliseconds, as the model has it. */
function inMs(facts: object) {
  const entries = Object.entries(facts).map(([name, value]) => [
    name,
    value instanceof Date ? value.getTime() : TIME.test(value) ? Date.parse(value) : value,
  ])
  return Object.fromEntries(entries)
}
