// How attempts are reserved and settled, the same on every engine, also in parallel.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { describe, test } from 'node:test'
import type { ThrottleScope } from '../../src/domain/attempt.ts'
import { ENGINES, openPatientStore, openTestStore } from '../support/engines.ts'
import {
  byEmail,
  changeAt,
  countKinds,
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
    const insertUser = (email: string) => insertTestUser(store, email, start)
    const reserve = (scopes: ThrottleScope[], now = start, email = UNKNOWN_EMAIL) =>
      store.attempts.reserve(scopes, email, now)
    async function fail(scopes: ThrottleScope[], times: number, now = start): Promise<void> {
      for (let i = 0; i < times; i++) {
        assert.deepEqual(await reserve(scopes, now), { kind: 'admitted', user: null })
        await store.attempts.fail(scopes, null, now)
      }
    }

    test('a success clears the failures of its pair, and of no other scope, with or without a session', async () => {
      const id = await insertUser('success@example.com')
      const [email, client] = ['success@example.com', 'client of success']
      const [scopes, others] = [makeScopes(email, client), makeScopes(email)]
      await fail(others, 1)
      for (const succeed of [
        () => store.attempts.pass(scopes),
        () => openFor(store, { id, passwordHash: 'a hash' }, scopes, start),
      ]) {
        await fail(scopes, 4)
        await reserve(scopes)
        await succeed()
      }
      assert.deepEqual(await rowsOf(scopes), { pair: [0, 0], email: [9, 0], client: [8, 0] })
      assert.deepEqual(await rowsOf(others), { pair: [1, 0], email: [9, 0], client: [1, 0] })
    })

    test('without scopes, no state is read', async () => {
      assert.deepEqual(await store.throttle.read([], start), [])
    })

    test('a block of an unknown email writes one dummy row, in place of a user', async () => {
      const known = 'known@example.com'
      await insertUser(known)
      const writtenAt = async (at: Date) => {
        const rows = await database.rows('select updated_at from unknown_user')
        const times = rows.map(row => new Date(String(row.updated_at)).getTime())
        return times.filter(time => time === at.getTime()).length
      }
      for (const [email, written, at] of [
        [known, 0, later(1_000)],
        [UNKNOWN_EMAIL, 1, later(2_000)],
      ] as const) {
        const isBlocked = async (client: string) =>
          (await reserve(makeScopes(email, client), at, email)).kind === 'blocked'
        for (let i = 0; i < 4; i++) {
          await fail(makeScopes(email, `guesser ${i}`), 5, at)
          if (i === 0) assert.equal(await isBlocked('guesser 0'), true)
        }
        assert.equal(await writtenAt(at), 0, 'a block of email and client')
        assert.equal(await isBlocked('owner'), true)
        assert.equal(await writtenAt(at), written, email)
      }
    })

    test('consecutive failures are counted on the user, and a failure of an unknown email on a dummy row', async () => {
      const id = await insertUser('row@example.com')
      const scopes = makeScopes('row@example.com')
      for (const expected of [1, 2]) {
        await reserve(scopes)
        assert.equal(await store.attempts.fail(scopes, id, start), expected)
      }
      assert.equal(await store.attempts.fail(makeScopes(), randomUUID(), start), 0, 'deleted since')
      const counted = async () =>
        (await database.rows('select sum(failed_login_attempts) as n from unknown_user'))[0]?.n
      const before = Number(await counted())
      await fail(makeScopes(), 1)
      assert.equal(Number(await counted()), before + 1)
    })

    test('a block lasts until its last moment, and not longer', async () => {
      const scopes = makeScopes()
      await fail(scopes, 5)
      const block = await reserve(scopes)
      assert.ok(block.kind === 'blocked')
      const endMs = block.blockedUntil.getTime() - start.getTime()
      assert.equal((await reserve(scopes, later(endMs - 1))).kind, 'blocked')
      assert.equal((await reserve(scopes, later(endMs))).kind, 'admitted')
    })

    test('a login that opens no session is noted of its user alone', async () => {
      const [user, other] = [
        await insertUser('noted@example.com'),
        await insertUser('o@example.com'),
      ]
      const scopes = makeScopes('noted@example.com')
      await reserve(scopes)
      const at = later(MINUTE_MS)
      await store.attempts.pass(scopes, { userId: user, at, ip: '192.0.2.1', userAgent: 'curl' })
      const { users } = await store.users.list({}, { after: '', limit: 1_000 }, start)
      const noted = (id: string) => users.find(it => it.id === id)?.lastLoginAt
      assert.deepEqual([noted(user), noted(other)], [at, null])
    })

    test('failures of unknown emails are spread over many dummy rows', async () => {
      await database.rows('update unknown_user set failed_login_attempts = 0')
      for (let i = 0; i < 100; i++) await fail(makeScopes(), 1)
      const rows = await database.rows(
        'select id from unknown_user where failed_login_attempts > 0',
      )
      // 100 random choices among 256 rows hit 82.9 different rows on average.
      assert.ok(rows.length > 50, String(rows.length))
    })

    test('parallel reservations are limited to the failures that are left for the day', async () => {
      const email = 'last@example.com'
      for (let window = 0; window < 4; window++) {
        for (let i = 0; i < 20; i++) {
          await fail(makeScopes(email, `client ${i}`), 1, later(window * 15 * MINUTE_MS))
        }
      }
      for (let i = 0; i < 18; i++) {
        await fail(makeScopes(email, `client ${i}`), 1, later(60 * MINUTE_MS))
      }
      const reservations = await Promise.all(
        Array.from({ length: 30 }, (_, i) =>
          reserve(makeScopes(email, `late client ${i}`), later(75 * MINUTE_MS)),
        ),
      )
      // Of the 98 failures, five are forgiven.
      assert.deepEqual(countKinds(reservations), { admitted: 7, busy: 23 })
    })

    test('parallel reservations, settlements and purges neither fail nor deadlock', async () => {
      // Attempts of other tests stay pending.
      await database.rows('delete from login_throttle')
      const id = await insertUser('busy@example.com')
      const second = await openPatientStore(database.config)
      const mix = async (round: number, i: number) => {
        const one = i % 2 === 0 ? store : second
        // New clients in each round: rows are inserted while others are updated.
        const scopes = makeScopes('busy@example.com', `client ${round} ${i % 10}`, {
          pair: 1e6,
          email: 1e6,
          client: 1e6,
        })
        await one.attempts.reserve(
          i % 3 === 0 ? scopes : scopes.toReversed(),
          'busy@example.com',
          start,
        )
        if (i % 4 === 0) await openFor(one, { id, passwordHash: 'a hash' }, scopes, start)
        else if (i % 4 === 1) await one.attempts.release(scopes)
        else await one.attempts.fail(scopes, id, start)
        if (i % 20 === 0) await one.maintenance.purge(start)
        if (i % 50 === 0) await byEmail(one).unlock('busy@example.com', changeAt(start))
      }
      for (let round = 0; round < 10; round++) {
        await Promise.all(Array.from({ length: 60 }, (_, i) => mix(round, i)))
      }
      await second.close()
      const pending = await database.rows('select key from login_throttle where pending > 0')
      assert.deepEqual(pending, [])
    })

    async function rowsOf(scopes: ThrottleScope[]) {
      const rows = await database.rows('select key, failures, pending from login_throttle')
      return Object.fromEntries(
        scopes.map(({ name, key }) => {
          const row = rows.find(candidate => candidate.key === key)
          return [name, [row?.failures, row?.pending]]
        }),
      )
    }
  })
}
