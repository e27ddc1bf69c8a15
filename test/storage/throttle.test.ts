// How attempts are reserved and settled, the same on every engine, also in parallel.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { describe, test } from 'node:test'
import type { ScopeName, ThrottleScope } from '../../src/domain/attempt.ts'
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

    test('of 100 parallel reservations, as many are admitted as the pair allows failures', async () => {
      const scopes = makeScopes()
      const reservations = await Promise.all(Array.from({ length: 100 }, () => reserve(scopes)))
      assert.deepEqual(countKinds(reservations), { admitted: 5, busy: 95 })
    })

    test('an email and a client each have a budget of their own', async () => {
      const cases: [ScopeName, number, (i: number) => ThrottleScope[]][] = [
        ['email', 20, i => makeScopes('one@example.com', `client ${i}`)],
        ['client', 50, i => makeScopes(`${i}@example.com`, 'one client')],
      ]
      for (const [scope, budget, scopesOf] of cases) {
        const reservations = await Promise.all(
          Array.from({ length: 100 }, async (_, i) => {
            const reservation = await reserve(scopesOf(i))
            if (reservation.kind === 'admitted') await store.attempts.fail(scopesOf(i), null, start)
            return reservation
          }),
        )
        assert.equal(countKinds(reservations).admitted, budget, scope)
        const blocked = await reserve(scopesOf(1_000))
        assert.equal(blocked.kind === 'blocked' && blocked.scope, scope)
      }
    })

    test('a scope without failures left is blocked for 15 minutes, which further attempts do not extend', async () => {
      const scopes = makeScopes()
      await fail(scopes, 5)
      const blocked = {
        kind: 'blocked',
        scope: 'pair',
        blockedUntil: later(16 * MINUTE_MS),
        lockedUserId: null,
      }
      assert.deepEqual(await reserve(scopes, later(MINUTE_MS)), blocked)
      assert.deepEqual(await reserve(scopes, later(10 * MINUTE_MS)), blocked)
      assert.deepEqual(await reserve(scopes, later(16 * MINUTE_MS - 1)), blocked)
      await fail(scopes, 5, later(16 * MINUTE_MS))
    })

    test('a window ends 15 minutes after its first failure', async () => {
      const scopes = makeScopes()
      await fail(scopes, 4)
      await fail(scopes, 4, later(15 * MINUTE_MS))
      await fail(scopes, 1, later(29 * MINUTE_MS))
      assert.equal((await reserve(scopes, later(29 * MINUTE_MS))).kind, 'blocked')
    })

    test('a blocked attempt is not counted in the other scopes', async () => {
      const attacker = makeScopes('victim@example.com', 'attacker')
      await fail(attacker, 5)
      for (let i = 0; i < 30; i++) assert.equal((await reserve(attacker)).kind, 'blocked')
      await fail(makeScopes('victim@example.com', 'owner'), 5)
    })

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

    test('a released attempt is not counted in any scope', async () => {
      const scopes = makeScopes()
      await reserve(scopes)
      await store.attempts.release(scopes)
      assert.deepEqual(await rowsOf(scopes), { pair: [0, 0], email: [0, 0], client: [0, 0] })
    })

    test('blocks and leases written by a clock that was a day ahead are over', async () => {
      const scopes = makeScopes()
      const tomorrow = later(24 * 60 * MINUTE_MS)
      await fail(scopes, 5, tomorrow)
      assert.equal((await reserve(scopes, tomorrow)).kind, 'blocked')
      assert.equal((await reserve(scopes)).kind, 'admitted')
      assert.deepEqual(await rowsOf(scopes), { pair: [0, 1], email: [0, 1], client: [0, 1] })
      const others = makeScopes()
      for (let i = 0; i < 5; i++) await reserve(others, tomorrow)
      assert.equal((await reserve(others)).kind, 'blocked')
    })

    test('a lease that ran out is a failure', async () => {
      const scopes = makeScopes()
      for (let i = 0; i < 5; i++) await reserve(scopes)
      assert.deepEqual(await reserve(scopes, later(59_000)), {
        kind: 'busy',
        user: null,
        key: scopes[0]?.key,
        capacity: 5,
      })
      assert.equal((await reserve(scopes, later(61_000))).kind, 'blocked')
      assert.deepEqual(await rowsOf(scopes), { pair: [5, 0], email: [0, 5], client: [0, 5] })
    })

    test('a block of the email locks its user, and an unlock clears the lock and all blocks', async () => {
      const email = 'guessed@example.com'
      const id = await insertUser(email)
      for (let i = 0; i < 4; i++) await fail(makeScopes(email, `guesser ${i}`), 5)
      const blocked = await reserve(makeScopes(email, 'owner'), start, email)
      assert.deepEqual(blocked, {
        kind: 'blocked',
        scope: 'email',
        blockedUntil: later(15 * MINUTE_MS),
        lockedUserId: id,
      })
      const locked = await store.users.findByEmail(email)
      assert.deepEqual(locked?.lockedUntil, later(15 * MINUTE_MS))
      assert.equal(locked?.lockedBy, 'throttle')

      assert.equal(await byEmail(store).unlock(email, changeAt(start)), true)
      assert.equal((await store.users.findByEmail(email))?.lockedUntil, null)
      assert.equal((await reserve(makeScopes(email, 'owner'))).kind, 'admitted')
      assert.equal((await reserve(makeScopes(email, 'guesser 1'))).kind, 'admitted')
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

    test('the throttle does not change an administrator’s lock', async () => {
      const email = 'both@example.com'
      await insertUser(email)
      await byEmail(store).lock(email, later(60 * MINUTE_MS), changeAt(start))
      for (let i = 0; i < 4; i++) await fail(makeScopes(email, `guesser ${i}`), 5)
      const blocked = await reserve(makeScopes(email, 'owner'), start, email)
      assert.equal(blocked.kind === 'blocked' && blocked.lockedUserId, null)
      assert.equal((await store.users.findByEmail(email))?.lockedBy, 'administrator')
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

    test('failures of unknown emails are spread over many dummy rows', async () => {
      await database.rows('update unknown_user set failed_login_attempts = 0')
      for (let i = 0; i < 100; i++) await fail(makeScopes(), 1)
      const rows = await database.rows(
        'select id from unknown_user where failed_login_attempts > 0',
      )
      // 100 random choices among 256 rows hit 82.9 different rows on average.
      assert.ok(rows.length > 50, String(rows.length))
    })

    test('an email has 100 failures and one more in each window, also on the next day', async () => {
      const email = 'daily@example.com'
      let clients = 0
      const failUntilBlocked = async (ms: number) => {
        for (let failures = 0; ; ) {
          const scopes = makeScopes(email, `client ${Math.floor(clients++ / 4)}`)
          const { kind } = await reserve(scopes, later(ms))
          if (kind === 'blocked') return failures
          await store.attempts.fail(scopes, null, later(ms))
          failures++
        }
      }
      const counts: number[] = []
      const WINDOWS_OF_A_DAY = 96
      for (let window = 0; window <= WINDOWS_OF_A_DAY; window++) {
        counts.push(await failUntilBlocked(window * 15 * MINUTE_MS))
      }
      // One in each of the first five windows is not among the 100.
      assert.deepEqual(counts.slice(0, 6), [20, 20, 20, 20, 20, 5])
      assert.deepEqual(new Set(counts.slice(6)), new Set([1]))
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

    test('leases that ran out count for the day, and a clear removes the failures for the day', async () => {
      const email = 'leases@example.com'
      for (let i = 0; i < 20; i++) await reserve(makeScopes(email, `client ${i}`))
      assert.equal((await reserve(makeScopes(email, 'x'), later(2 * MINUTE_MS))).kind, 'blocked')
      const stored = { clearsAt: later(302 * MINUTE_MS), expiresAt: later(302 * MINUTE_MS) }
      assert.deepEqual(
        await dayOf(makeScopes(email)),
        stored,
        'the row is kept until its failures are forgiven',
      )
      await store.throttle.clearOfEmail(email, changeAt(later(2 * MINUTE_MS)))
      assert.deepEqual(await dayOf(makeScopes(email)), { ...stored, clearsAt: null })
    })

    test('leases that ran out start a day for the email only', async () => {
      const scopes = makeScopes('day@example.com', 'client of a day')
      for (let i = 0; i < 5; i++) await reserve(scopes)
      for (const client of ['client of a day', 'another client']) {
        await reserve(makeScopes('day@example.com', client), later(2 * MINUTE_MS))
      }
      const rows = await database.rows(
        `select scope from login_throttle where clears_at is not null
          and key in (${scopes.map(({ key }) => `'${key}'`)})`,
      )
      assert.deepEqual(
        rows.map(row => row.scope),
        ['email'],
      )
    })

    test('one failure for the day is forgiven every 15 minutes', async () => {
      const scopes = makeScopes()
      const HOURS_25 = 100 * 15
      await fail(scopes, 1)
      await database.rows(
        `update login_throttle set clears_at = '${later(HOURS_25 * MINUTE_MS).toISOString()}'
          where key = '${scopes[1]?.key}'`,
      )
      for (const [minutes, left] of [
        [0, 100],
        [14, 100],
        [15, 99],
        [24 * 60, 4],
        [HOURS_25 - 15, 1],
        [HOURS_25, 0],
      ] as const) {
        const [, email] = await store.throttle.read(scopes, later(minutes * MINUTE_MS))
        const dayEndsAt = left > 0 ? later(HOURS_25 * MINUTE_MS) : null
        assert.deepEqual([email?.dailyFailures, email?.dayEndsAt], [left, dayEndsAt])
      }
      for (const [minutes, clears, expires] of [
        [24 * 60, HOURS_25 + 15, HOURS_25 + 15],
        [HOURS_25 + 14, HOURS_25 + 30, HOURS_25 + 30],
        // The last failure is forgiven now: this one is the first of the next day.
        [HOURS_25 + 30, HOURS_25 + 45, HOURS_25 + 46],
      ] as const) {
        await fail(scopes, 1, later(minutes * MINUTE_MS))
        const stored = {
          clearsAt: later(clears * MINUTE_MS),
          expiresAt: later(expires * MINUTE_MS),
        }
        assert.deepEqual(await dayOf(scopes), stored)
      }
    })

    test('15 minutes are as long where the server’s day has 23 hours', async () => {
      const config = { ...database.config }
      if (config.engine === 'postgres') config.url += '?options=-c%20timezone=America/New_York'
      const abroad = await openPatientStore(config)
      const now = new Date('2030-03-09T12:00:00Z')
      const scopes = makeScopes()
      // Forgiven 50 hours later, which is believed; one millisecond more is not.
      for (const [ms, kind] of [
        [0, 'blocked'],
        [1, 'admitted'],
      ] as const) {
        const clearsAt = new Date(now.getTime() + 200 * 15 * MINUTE_MS + ms)
        await database.rows('delete from login_throttle')
        await fail(scopes, 1, now)
        await database.rows(
          `update login_throttle set clears_at = '${clearsAt.toISOString()}' where scope = 'email'`,
        )
        assert.equal((await abroad.attempts.reserve(scopes, UNKNOWN_EMAIL, now)).kind, kind)
      }
      await abroad.close()
    })

    test('a purge removes throttle rows that have expired, and no others', async () => {
      await database.rows('delete from login_throttle')
      const [idle, blocked] = [makeScopes(), makeScopes()]
      await fail(idle, 1)
      await fail(blocked, 5, later(5 * MINUTE_MS))
      await reserve(blocked, later(5 * MINUTE_MS))
      const purge = async (ms: number) => (await store.maintenance.purge(later(ms)))?.throttleRows
      assert.equal(await purge(15 * MINUTE_MS), 0)
      assert.equal(await purge(17 * MINUTE_MS), 3)
      assert.equal((await reserve(blocked, later(17 * MINUTE_MS))).kind, 'blocked')
      assert.equal(await purge(60 * MINUTE_MS), 2)
      assert.equal(await purge(80 * MINUTE_MS - 1), 0, '15 minutes for each failure of the email')
      assert.equal(await purge(80 * MINUTE_MS), 1)
      assert.deepEqual(await database.rows('select key from login_throttle'), [])
    })

    test('parallel reservations, settlements and purges neither fail nor deadlock', async () => {
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

    /** What the row of the email stores about its day. */
    async function dayOf([, email]: ThrottleScope[]) {
      const [row] = await database.rows(
        `select clears_at, expires_at from login_throttle where key = '${email?.key}'`,
      )
      return {
        clearsAt: row?.clears_at && new Date(row.clears_at as string),
        expiresAt: new Date(row?.expires_at as string),
      }
    }

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
