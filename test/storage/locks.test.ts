// In which order transactions lock rows on PostgreSQL: one table after the other, and the rows of a table in one order, so
// that no deadlock occurs. Each test holds the lock of one row, waits until an operation waits for it, and then finds that
// the operation has not locked what comes later. SQLite has one write lock.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, describe, test } from 'node:test'
import pg from 'pg'
import type { ThrottleScope } from '../../src/domain/attempt.ts'
import type { FactorsChange, UsedProof } from '../../src/domain/second-factor.ts'
import { createMigratedDatabase, openPatientStore } from '../support/engines.ts'
import { until } from '../support/process.ts'
import {
  byEmail,
  changeAt,
  digest,
  insertTestUser,
  makeFactor,
  makeScopes,
  makeSuccessor,
  openFor,
} from './fixtures.ts'

/**
 * Plans that read whole tables, and so find rows in the order in which they were added: an index would return them in the
 * right order by chance. The service forbids such plans too, so the price of an index decides.
 */
const WITHOUT_INDEXES = [
  ...['enable_indexscan=off', 'enable_indexonlyscan=off'],
  ...['random_page_cost=1e6', 'cpu_index_tuple_cost=1e6'],
]

describe('locks on postgresql', async () => {
  const { config, drop } = await createMigratedDatabase('postgres')
  if (config.engine !== 'postgres') throw new Error('not PostgreSQL')
  const url = new URL(config.url)
  url.searchParams.set('options', WITHOUT_INDEXES.map(setting => `-c ${setting}`).join(' '))
  const store = await openPatientStore({ ...config, url: url.toString() })
  const [holder, prober] = [new pg.Client(config.url), new pg.Client(config.url)]
  await Promise.all([holder.connect(), prober.connect()])
  // Only a failing test waits so long.
  await prober.query("set lock_timeout = '1s'")
  after(async () => {
    await Promise.all([store.close(), holder.end(), prober.end()])
    await drop()
  })

  const now = new Date()
  const change = changeAt(now)
  const logIn = (id: string, scopes: ThrottleScope[], at = now, maxSessions?: number) =>
    openFor(store, { id, passwordHash: 'a hash' }, scopes, at, maxSessions)
  const newEmail = () => `${randomUUID()}@example.com`

  async function isAnyWaiting(): Promise<boolean> {
    const { rows } = await prober.query(
      'select 1 from pg_stat_activity where $1 = any (pg_blocking_pids(pid))',
      [Object(holder).processID],
    )
    return rows.length > 0
  }

  /** `first` locks or adds the row that the operation must reach first, `later` those that it must not have reached. */
  type Order = { first: string; later: string; operation: () => Promise<unknown> }

  async function assertOrder({ first, later, operation }: Order): Promise<void> {
    await holder.query('begin')
    assert.ok((await holder.query(first)).rowCount, first)
    let isOver = false
    const running = operation().finally(() => {
      isOver = true
    })
    try {
      await until(async () => isOver || (await isAnyWaiting()))
      assert.equal(isOver, false, 'the operation does not wait')
      await prober.query('begin')
      assert.ok((await prober.query(later)).rowCount, later)
    } finally {
      await prober.query('rollback')
      await holder.query('rollback')
      await running
    }
  }

  const listed = (values: string[]) => values.map(value => `'${value}'`).join()
  const locking = (table: string, column: string, ...values: string[]) =>
    `select 1 from ${table} where ${column} in (${listed(values)}) for update`

  /** After one failure, which is all that the email allows. */
  type Failed = { email: string; id: string; scopes: ThrottleScope[] }
  const blockEmail = ({ scopes, email }: Failed) => store.attempts.reserve(scopes, email, now)
  const USER_FIRST: [string, 'users' | 'unknown_user', (failed: Failed) => Promise<unknown>][] = [
    ['a failure', 'users', ({ scopes, id }) => store.attempts.fail(scopes, id, now)],
    ['a failure', 'unknown_user', ({ scopes }) => store.attempts.fail(scopes, null, now)],
    ['an attempt that blocks the email', 'users', blockEmail],
    ['an attempt that blocks the email', 'unknown_user', blockEmail],
    ['a login', 'users', ({ scopes, id }) => logIn(id, scopes)],
    [
      'a right password without a session',
      'users',
      ({ scopes, id }) =>
        store.attempts.pass(scopes, { userId: id, at: now, ip: '::1', userAgent: '' }),
    ],
    ['an unlock', 'users', ({ email }) => byEmail(store).unlock(email, change)],
    ['a clear of an email', 'users', ({ email }) => store.throttle.clearOfEmail(email, change)],
  ]
  for (const [title, table, operation] of USER_FIRST) {
    test(`${title} locks ${table} before the scopes`, async () => {
      const email = newEmail()
      const isKnown = table === 'users'
      const id = isKnown ? await insertTestUser(store, email, now) : ''
      const scopes = makeScopes(email, randomUUID(), { pair: 5, email: 1, client: 50 })
      assert.equal((await store.attempts.reserve(scopes, email, now)).kind, 'admitted')
      await store.attempts.fail(scopes, isKnown ? id : null, now)
      await assertOrder({
        // Which one of the dummy rows an email has is secret.
        first: isKnown ? locking('users', 'id', id) : 'select 1 from unknown_user for update',
        later: locking('login_throttle', 'key', ...scopes.map(({ key }) => key)),
        operation: () => operation({ email, id, scopes }),
      })
    })
  }

  /** A user with a factor and a recovery code, and how a login uses or changes them. */
  async function withFactor() {
    const userId = await insertTestUser(store, newEmail(), now)
    const [id, recoveryCode] = [randomUUID(), digest(randomUUID())]
    await prober.query(`insert into second_factors (id, user_id, kind, secret)
      values ('${id}', '${userId}', 'totp', 'key.secret')`)
    await prober.query(
      `insert into recovery_codes (user_id, digest) values ('${userId}', '${recoveryCode}')`,
    )
    const code: UsedProof = { kind: 'totp', id, usedTo: now, secret: 'key.secret' }
    const logInWith = (
      used: UsedProof,
      factors: FactorsChange | null = null,
      scopes = makeScopes(),
    ) => {
      const change = factors && { newHash: null, factors, keptDeviceId: null }
      const more = { proof: { used, guessesBelow: 10 }, change }
      const verified = { id: userId, passwordHash: 'a hash' }
      return openFor(store, verified, scopes, now, undefined, undefined, more)
    }
    return {
      ...{ userId, id, code, logInWith },
      recovery: { kind: 'recovery-code', digest: recoveryCode } as UsedProof,
      lockFactor: locking('second_factors', 'id', id),
      lockCode: locking('recovery_codes', 'digest', recoveryCode),
    }
  }
  type WithFactor = Awaited<ReturnType<typeof withFactor>>
  const recoveryDigests = () => [digest(randomUUID())]
  const FACTORS_AFTER_USER: Record<string, (of: WithFactor) => Promise<unknown>> = {
    'a login with a code': ({ logInWith, code }) => logInWith(code),
    'a login with a recovery code': ({ logInWith, recovery }) => logInWith(recovery),
    'a removal': ({ logInWith, code, id }) => logInWith(code, { kind: 'remove', id, isLast: true }),
    'new recovery codes': ({ logInWith, code }) =>
      logInWith(code, { kind: 'new-recovery-codes', recoveryDigests: recoveryDigests() }),
    'a replacement': ({ logInWith, code }) => {
      const set = { kind: 'set', factor: makeFactor(now) } as const
      return logInWith(code, { ...set, recoveryDigests: recoveryDigests() })
    },
    'a reset': ({ userId }) => store.secondFactors.reset(userId, null, change),
    'the deletion of the user': ({ userId }) => store.users.delete(userId, change),
  }
  for (const [title, operation] of Object.entries(FACTORS_AFTER_USER)) {
    test(`${title} locks the user before second factors and recovery codes`, async () => {
      for (const part of ['lockFactor', 'lockCode'] as const) {
        const owner = await withFactor()
        const first = locking('users', 'id', owner.userId)
        await assertOrder({ first, later: owner[part], operation: () => operation(owner) })
      }
    })
  }

  test('a login locks the second factor or the recovery code that it uses before the scopes', async () => {
    const owner = await withFactor()
    for (const [first, used] of [
      [owner.lockFactor, owner.code],
      [owner.lockCode, owner.recovery],
    ] as const) {
      const scopes = await storedScopes(newEmail())
      const later = locking('login_throttle', 'key', ...scopes.map(({ key }) => key))
      const operation = () => owner.logInWith(used, null, scopes)
      await assertOrder({ first, later, operation })
    }
  })

  test('a login locks the scopes before the sessions that it displaces', async () => {
    const { id, later } = await withSessions()
    const scopes = await storedScopes(newEmail())
    const first = locking('login_throttle', 'key', ...scopes.map(({ key }) => key))
    await assertOrder({ first, later, operation: () => logIn(id, scopes, now, 1) })
  })

  test('an attempt adds new scopes before it changes others: another one that adds both does not wait', async () => {
    const [added, changed] = inOrder(makeScopes())
    assert.ok(added && changed)
    await store.attempts.reserve([changed], newEmail(), now)
    await assertOrder({
      first: addingScope(added),
      later: `with tried as (${addingScope(changed)} on conflict do nothing) select 1`,
      operation: () => store.attempts.reserve([added, changed], newEmail(), now),
    })
  })

  test('a code is locked before its user', async () => {
    const userId = await insertTestUser(store, newEmail(), now)
    const pageId = randomUUID()
    const openPage = { id: pageId, ip: '' }
    await openFor(store, { id: userId, passwordHash: 'a hash' }, makeScopes(), now, 10, openPage)
    const code = digest(randomUUID())
    const expiresAt = new Date(now.getTime() + 60_000)
    await store.codes.insert(code, pageId, { callback: '', challenge: 'x'.repeat(43), expiresAt })
    const session = { id: randomUUID(), expiresAt, userAgent: '', ip: '' }
    const opening = {
      userId,
      session,
      refreshToken: makeSuccessor(now, expiresAt),
      maxSessions: 10,
    }
    await assertOrder({
      first: locking('login_codes', 'digest', code),
      later: locking('users', 'id', userId),
      operation: () => store.codes.redeem(code, opening, now),
    })
  })

  const inOrder = (scopes: ThrottleScope[]) => scopes.toSorted((a, b) => (a.key < b.key ? -1 : 1))
  /** Each scope has a row. The rows are added one by one, the last one first. */
  async function storedScopes(email: string) {
    const scopes = inOrder(makeScopes(email))
    for (const scope of scopes.toReversed()) await store.attempts.reserve([scope], email, now)
    return scopes
  }
  const lockingScopes = ([first, ...later]: ThrottleScope[]) => ({
    first: locking('login_throttle', 'key', first?.key ?? ''),
    later: locking('login_throttle', 'key', ...later.map(({ key }) => key)),
  })
  const addingScope = (scope?: ThrottleScope) =>
    `insert into login_throttle (key, scope, failures, pending, lease_ends_at, window_ends_at, expires_at)
      values ('${scope?.key}', 'pair', 0, 0, now(), now(), now())`

  /** A user with three sessions, added one by one, the newest one first. */
  async function withSessions() {
    const id = await insertTestUser(store, newEmail(), now)
    for (const seconds of [1, 2, 3]) {
      await logIn(id, makeScopes(), new Date(now.getTime() - seconds * 1_000))
    }
    const isOldest = `created_at = (select min(created_at) from sessions where user_id = '${id}')`
    const select = `select 1 from sessions where user_id = '${id}' and`
    return {
      id,
      first: `${select} ${isOldest} for update`,
      later: `${select} not (${isOldest}) for update`,
    }
  }

  const imported = (email: string) => ({
    ...{ id: randomUUID(), isIdGiven: false, email, name: 'Name', passwordHash: 'another hash' },
    ...{ role: null, isActive: null, createdAt: null, lockedUntil: null },
  })
  const importAll = (emails: string[]) =>
    store.imports.run(emails.map(imported), { mayUpdate: true, isDryRun: false }, change)
  const threeEmails = () => [newEmail(), newEmail(), newEmail()].toSorted()
  const addingUser = (email = '') => `insert into users (email, password_hash, name)
    values ('${email}', 'a hash', 'Name')`

  const IN_ORDER: Record<string, () => Promise<Order>> = {
    async 'the scopes of an attempt'() {
      const scopes = await storedScopes(newEmail())
      return { ...lockingScopes(scopes), operation: () => store.attempts.release(scopes) }
    },
    async 'the scopes of an email that is cleared'() {
      const email = newEmail()
      const scopes = (await storedScopes(email)).filter(({ emailDigest }) => emailDigest !== null)
      const operation = () => store.throttle.clearOfEmail(email, change)
      return { ...lockingScopes(scopes), operation }
    },
    async 'the new scopes of an attempt'() {
      const scopes = inOrder(makeScopes())
      return {
        ...{ first: addingScope(scopes[0]), later: addingScope(scopes[2]) },
        operation: () => store.attempts.reserve(scopes.toReversed(), newEmail(), now),
      }
    },
    async 'the sessions that a login displaces'() {
      const { id, ...order } = await withSessions()
      return { ...order, operation: () => logIn(id, makeScopes(), now, 1) }
    },
    async 'all sessions of a user'() {
      const { id, ...order } = await withSessions()
      return { ...order, operation: () => store.sessions.endAll(id, change) }
    },
    async 'the users that an import changes'() {
      const emails = threeEmails()
      for (const email of emails.toReversed()) await insertTestUser(store, email, now)
      const [first = '', ...later] = emails
      return {
        first: locking('users', 'email', first),
        later: locking('users', 'email', ...later),
        operation: () => importAll(emails),
      }
    },
    async 'the users that an import adds'() {
      const emails = threeEmails()
      return {
        ...{ first: addingUser(emails[0]), later: addingUser(emails[2]) },
        operation: () => importAll(emails.toReversed()),
      }
    },
  }
  for (const [rows, prepare] of Object.entries(IN_ORDER)) {
    test(`${rows} are locked or added in one order`, async () => assertOrder(await prepare()))
  }
})
