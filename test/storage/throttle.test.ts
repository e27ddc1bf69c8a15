// How attempts are reserved and settled, the same on every engine, also in parallel.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, describe, test } from 'node:test'
import type { ThrottleScope } from '../../src/domain/attempt.ts'
import type { Store } from '../../src/domain/store.ts'
import {
  createMigratedDatabase,
  ENGINES,
  openPatientStore,
  openTestStore,
  type TestDatabase,
} from '../support/engines.ts'
import { inParallel } from '../support/own.ts'
import { until } from '../support/process.ts'
import {
  byEmail,
  changeAt,
  insertTestUser,
  makeScopes,
  openFor,
  UNKNOWN_EMAIL,
} from './fixtures.ts'

const MINUTE_MS = 60_000
const BOUNDLESS = { pair: 1e6, email: 1e6, client: 1e6 }

for (const engine of ENGINES) {
  describe(`throttle on ${engine}`, async () => {
    const { store, database } = await openTestStore(engine)

    const start = new Date('2030-01-01T00:00:00.000Z')
    const later = (ms: number) => new Date(start.getTime() + ms)
    const reserve = (scopes: ThrottleScope[], now = start, email = UNKNOWN_EMAIL) =>
      store.attempts.reserve(scopes, email, now)
    async function fail(scopes: ThrottleScope[], times: number, now = start): Promise<void> {
      for (let i = 0; i < times; i++) {
        assert.deepEqual(await reserve(scopes, now), { kind: 'admitted', user: null })
        await store.attempts.fail(scopes, null, now)
      }
    }

    test('a block of an unknown email writes one dummy row, in place of a user', async () => {
      const known = 'known@example.com'
      await insertTestUser(store, known, start)
      const writtenAt = async (at: Date) => {
        const rows = await database.rows('select updated_at from unknown_user')
        const times = rows.map(row => new Date(String(row.updated_at)).getTime())
        return times.filter(time => time === at.getTime()).length
      }
      for (const [email, written, at] of [
        [known, 0, later(1_000)],
        [UNKNOWN_EMAIL, 1, later(2_000)],
      ] as const) {
        for (const scope of makeScopes(email).filter(({ name }) => name !== 'client')) {
          await fail([scope], scope.maxFailures, at)
          assert.equal((await reserve([scope], at, email)).kind, 'blocked')
          assert.equal(await writtenAt(at), scope.name === 'email' ? written : 0, email)
        }
      }
    })

    test('failures of unknown emails are counted on many dummy rows, and of a deleted user nowhere', async () => {
      await database.rows('update unknown_user set failed_login_attempts = 0')
      for (let i = 0; i < 100; i++) await fail(makeScopes(), 1)
      const { failures } = await store.attempts.fail(makeScopes(), randomUUID(), start)
      assert.equal(failures, 0)
      const rows = await database.rows(
        'select failed_login_attempts as failures from unknown_user where failed_login_attempts > 0',
      )
      assert.equal(
        rows.reduce((sum, { failures }) => sum + Number(failures), 0),
        100,
      )
      // 100 random choices among 256 rows hit 82.9 different rows on average.
      assert.ok(rows.length > 50, String(rows.length))
    })

    test('parallel reservations are limited to the failures that are left for the day', async () => {
      const scopes = makeScopes().flatMap(scope =>
        scope.name === 'email' ? { ...scope, maxDailyFailures: 25 } : [],
      )
      await fail(scopes, 20)
      const late = later(15 * MINUTE_MS)
      const reservations = await inParallel(30, () => reserve(scopes, late))
      // Of the 20 failures, one is forgiven.
      const kinds = [...Array(6).fill('admitted'), ...Array(24).fill('busy')]
      assert.deepEqual(reservations.map(({ kind }) => kind).toSorted(), kinds)
    })

    test('of parallel first attempts, as many are admitted as failures are allowed', async () => {
      for (let round = 0; round < 10; round++) {
        const scopes = makeScopes()
        const kinds = (await inParallel(20, () => reserve(scopes))).map(({ kind }) => kind)
        assert.equal(kinds.filter(kind => kind === 'admitted').length, 5)
        const states = await store.throttle.read(scopes, start)
        assert.deepEqual(
          states.map(({ pending }) => pending),
          [5, 5, 5],
        )
      }
    })

    /** The store has two pools. A deadlock only takes time, because it is repeated: the server knows how many there were. */
    async function assertNoDeadlock(
      operate: (storeOf: (i: number) => Store, database: TestDatabase) => Promise<void>,
    ): Promise<void> {
      const own = await createMigratedDatabase(engine)
      after(own.drop)
      const [even, odd] = [await openPatientStore(own.config), await openPatientStore(own.config)]
      try {
        await operate(i => (i % 2 === 0 ? even : odd), own)
      } finally {
        await Promise.all([even.close(), odd.close()])
      }
      if (engine === 'sqlite') return
      // A connection has told the server all that it counted when it has ended.
      const others = 'datname = current_database() and pid <> pg_backend_pid()'
      await until(
        async () => (await own.rows(`select from pg_stat_activity where ${others}`)).length === 0,
      )
      const counted = await own.rows(
        'select deadlocks from pg_stat_database where datname = current_database()',
      )
      assert.deepEqual(counted, [{ deadlocks: '0' }])
    }

    test('of parallel first attempts at a new account, each is counted, without a deadlock', () =>
      assertNoDeadlock(async storeOf => {
        const [clients, each, rounds] = [5, 10, 6]
        for (let round = 0; round < rounds; round++) {
          const scopesOf = (client: number) =>
            makeScopes(`email ${round}`, `client ${round} ${client % clients}`, BOUNDLESS)
          const inAnyOrder = (i: number) => (i % 3 === 0 ? scopesOf(i) : scopesOf(i).toReversed())
          const assertCounted = async (counted: (attempts: number) => object) => {
            for (let client = 0; client < clients; client++) {
              const states = await storeOf(0).throttle.read(scopesOf(client), start)
              assert.partialDeepStrictEqual(states, [each, clients * each, each].map(counted))
            }
          }
          await inParallel(clients * each, i =>
            storeOf(i).attempts.reserve(inAnyOrder(i), UNKNOWN_EMAIL, start),
          )
          await assertCounted(pending => ({ pending, failures: 0 }))
          await inParallel(clients * each, i =>
            storeOf(i).attempts.fail(inAnyOrder(i), null, start),
          )
          await assertCounted(failures => ({ pending: 0, failures }))
        }
      }))

    test('parallel reservations, settlements and purges neither fail nor deadlock', () =>
      assertNoDeadlock(async (storeOf, { rows }) => {
        const email = 'busy@example.com'
        const id = await insertTestUser(storeOf(0), email, start)
        const mix = async (round: number, i: number) => {
          const one = storeOf(i)
          // New clients in each round: rows are inserted while others are updated.
          const scopes = makeScopes(email, `client ${round} ${i % 10}`, BOUNDLESS)
          const asked = i % 3 === 0 ? scopes : scopes.toReversed()
          await one.attempts.reserve(asked, email, start)
          if (i % 4 === 0) await openFor(one, { id, passwordHash: 'a hash' }, scopes, start)
          else if (i % 4 === 1) await one.attempts.release(scopes)
          else await one.attempts.fail(scopes, id, start)
          if (i % 20 === 0) await one.maintenance.purge(start)
          if (i % 50 === 0) await byEmail(one).unlock(email, changeAt(start))
        }
        for (let round = 0; round < 10; round++) await inParallel(60, i => mix(round, i))
        assert.deepEqual(await rows('select key from login_throttle where pending > 0'), [])
      }))
  })
}
