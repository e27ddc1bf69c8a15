// How attempts are reserved and settled, the same on every engine, also in parallel.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { describe, test } from 'node:test'
import type { ThrottleScope } from '../../src/domain/attempt.ts'
import { ENGINES, openPatientStore, openTestStore } from '../support/engines.ts'
import { inParallel } from '../support/own.ts'
import {
  byEmail,
  changeAt,
  insertTestUser,
  makeScopes,
  openFor,
  UNKNOWN_EMAIL,
} from './fixtures.ts'

const MINUTE_MS = 60_000

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
      assert.equal(await store.attempts.fail(makeScopes(), randomUUID(), start), 0)
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

    test('parallel reservations, settlements and purges neither fail nor deadlock', async () => {
      // Attempts of other tests stay pending.
      await database.rows('delete from login_throttle')
      const email = 'busy@example.com'
      const budgets = { pair: 1e6, email: 1e6, client: 1e6 }
      const id = await insertTestUser(store, email, start)
      const second = await openPatientStore(database.config)
      const mix = async (round: number, i: number) => {
        const one = i % 2 === 0 ? store : second
        // New clients in each round: rows are inserted while others are updated.
        const scopes = makeScopes(email, `client ${round} ${i % 10}`, budgets)
        const asked = i % 3 === 0 ? scopes : scopes.toReversed()
        await one.attempts.reserve(asked, email, start)
        if (i % 4 === 0) await openFor(one, { id, passwordHash: 'a hash' }, scopes, start)
        else if (i % 4 === 1) await one.attempts.release(scopes)
        else await one.attempts.fail(scopes, id, start)
        if (i % 20 === 0) await one.maintenance.purge(start)
        if (i % 50 === 0) await byEmail(one).unlock(email, changeAt(start))
      }
      for (let round = 0; round < 10; round++) await inParallel(60, i => mix(round, i))
      await second.close()
      const pending = await database.rows('select key from login_throttle where pending > 0')
      assert.deepEqual(pending, [])
    })
  })
}
