// The behaviour of users, logins, sessions, the purge and migrations, the same on every engine.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { describe, test } from 'node:test'
import type { ThrottleScope } from '../../src/domain/attempt.ts'
import { createTestDatabase, ENGINES, openPatientStore, openTestStore } from '../support/engines.ts'
import { fillSessions } from '../support/many-sessions.ts'
import { inParallel } from '../support/own.ts'
import { DAY_MS, MINUTE_MS } from '../support/session-client.ts'
import {
  byEmail,
  changeAt,
  digest,
  eventsOf,
  insertTestUser,
  makeScopes,
  makeSuccessor,
  openFor,
  purgeAll,
  toNumbers,
  UNKNOWN_EMAIL,
} from './fixtures.ts'

/** Most rows of one table that one call of the purge may remove. */
const MOST_PER_PURGE = 2_500
const NO_ROWS = { sessions: 0, tokens: 0 }

for (const engine of ENGINES) {
  describe(`store on ${engine}`, async () => {
    const { store, database } = await openTestStore(engine)

    const start = new Date('2030-01-01T00:00:00.000Z')
    const later = (ms: number) => new Date(start.getTime() + ms)
    const newUser = async () => {
      const email = `${randomUUID()}@example.com`
      return { email, id: await insertTestUser(store, email, start) }
    }
    const open = (id: string, now = start, maxSessions?: number) =>
      openFor(store, { id, passwordHash: 'a hash' }, makeScopes(), now, maxSessions)
    /** The last login that a new session is told; undefined if none was opened. */
    async function lastLoginOf(id: string, ip: string, now = start, passwordHash = 'a hash') {
      const client = { id: randomUUID(), ip }
      await openFor(store, { id, passwordHash }, makeScopes(), now, 1_000, client)
      const found = await store.sessions.findLive(client.id, now)
      return found.kind === 'live' ? found.lastLogin : undefined
    }
    const fail = (id: string) => store.attempts.fail(makeScopes(), id, start)
    const reserve = (scopes: ThrottleScope[]) =>
      store.attempts.reserve(scopes, UNKNOWN_EMAIL, start)

    /** Its last token, which is that of its only session in most tests. */
    const tokenOf = async (userId: string) => {
      const [row] = await database.rows(
        `select session_id, id, token from refresh_tokens where user_id = '${userId}' and revoked_at is null`,
      )
      return [row?.session_id, row?.id, row?.token].map(String) as [string, string, string]
    }
    const rowsOf = async (userId: string) => {
      const [row] = await database.rows(
        `select (select count(*) from sessions where user_id = '${userId}') as sessions,
          (select count(*) from refresh_tokens where user_id = '${userId}') as tokens`,
      )
      return toNumbers(row)
    }

    test('a user is read as it was stored, with default values', async () => {
      const id = await insertTestUser(store, 'stored@example.com', start)
      assert.deepEqual(await store.users.findByEmail('stored@example.com'), {
        ...{ id, email: 'stored@example.com', passwordHash: 'a hash', name: 'Name', role: 'user' },
        ...{ isActive: true, failedLoginAttempts: 0, lockedUntil: null, lockedBy: null },
        ...{ temporaryUntil: null, createdAt: start, updatedAt: start },
        ...{ factorsVersion: 0, failedSecondSteps: 0, codeOffsetSeconds: null },
      })
      assert.equal(await store.users.findByEmail('Stored@example.com'), null)
    })

    if (engine === 'postgres') {
      test('a statement that the server has forgotten is prepared again', async () => {
        await database.rows(`create function forget() returns trigger language plpgsql
          as $$ begin execute 'deallocate all'; return null; end $$;
          create trigger forget after update on login_throttle execute function forget()`)
        try {
          for (const scopes of [makeScopes(), makeScopes(), makeScopes()]) {
            assert.equal((await reserve(scopes)).kind, 'admitted')
            await store.attempts.release(scopes)
          }
        } finally {
          await database.rows('drop function forget cascade')
        }
      })
    }

    test('the database rejects values beyond the limits, also from other programs', async () => {
      const user = (email: string, name = 'n', role = 'r', hash = 'h') =>
        `insert into users (id, email, password_hash, name, role)
         values ('${randomUUID()}', '${email}', '${hash}', '${name}', '${role}')`
      await database.rows(user(`${'e'.repeat(242)}@example.com`))
      const invalid = [
        user(`${'e'.repeat(243)}@example.com`),
        user('no-at-sign'),
        user('n@example.com', 'n'.repeat(101)),
        user('r@example.com', 'n', 'r'.repeat(51)),
        user('h@example.com', 'n', 'r', 'h'.repeat(256)),
        user('stored@example.com'),
        `insert into refresh_tokens (id, user_id, session_id, token, key_id, expires_at)
         values ('${randomUUID()}', '${randomUUID()}', '${randomUUID()}', 't', 'k', '2030-01-01T00:00:00.000Z')`,
      ]
      for (const statement of invalid) await assert.rejects(database.rows(statement), statement)
    })

    test('a code is not redeemed for a user that is no longer active', async () => {
      const { email, id: userId } = await newUser()
      await open(userId)
      const [sessionId] = await tokenOf(userId)
      const expiresAt = later(MINUTE_MS)
      const code = { callback: 'https://app.example.net/', challenge: 'x'.repeat(43), expiresAt }
      await store.codes.insert(digest(email), sessionId, code)
      await database.rows(`update users set is_active = false where id = '${userId}'`)
      const refreshToken = makeSuccessor(start, expiresAt)
      const opened = { id: randomUUID(), expiresAt, userAgent: '', ip: '' }
      const redemption = { userId, session: opened, refreshToken, maxSessions: 10 }
      assert.equal(await store.codes.redeem(digest(email), redemption, start), null)
      assert.equal((await store.sessions.findLive(opened.id, start)).kind, 'invalid')
    })

    test('only the verified hash is upgraded. A session opens for it afterwards, but not after a new password', async () => {
      const { email, id } = await newUser()
      const readHash = async () => (await store.users.findById(id))?.passwordHash
      await store.users.upgradePasswordHash(id, 'not this one', 'upgraded', start)
      assert.equal(await readHash(), 'a hash')
      await store.users.upgradePasswordHash(id, 'a hash', 'upgraded', start)
      assert.equal(await readHash(), 'upgraded')
      assert.equal(await open(id), true)
      await byEmail(store).setPassword(email, 'another', changeAt(start))
      assert.equal(await open(id), false)
    })

    test('parallel purges remove each row once', async () => {
      await database.rows('delete from login_throttle')
      for (let i = 0; i < 20; i++) await reserve(makeScopes())
      const second = await openPatientStore(database.config)
      const purges = await inParallel(8, i =>
        (i % 2 === 0 ? store : second).maintenance.purge(later(60 * MINUTE_MS)),
      )
      await second.close()
      const removed = purges.reduce((sum, purged) => sum + (purged?.throttleRows ?? 0), 0)
      assert.equal(removed, 60)
    })

    test('a repeated migration, or five parallel ones on an empty database, apply each change once', async () => {
      assert.deepEqual(await store.migrations.apply(), [])
      const empty = await createTestDatabase(engine)
      const stores = await inParallel(5, () => openPatientStore(empty.config))
      const applied = await Promise.all(stores.map(each => each.migrations.apply()))
      const migrations = await store.migrations.list()
      assert.deepEqual(
        applied.flat().toSorted(),
        migrations.map(({ name }) => name),
      )
      await Promise.all(stores.map(each => each.close()))
      await empty.drop()
    })

    test('a login that fails because the user has changed is neither a failure nor a login', async () => {
      const { id } = await newUser()
      await lastLoginOf(id, '::1')
      assert.equal(await lastLoginOf(id, '::2', later(1), 'another hash'), undefined)
      const last = await lastLoginOf(id, '::3', later(2))
      assert.deepEqual([last?.ip, last?.failuresSince], ['::1', 0])
    })

    test('no change by an administrator forgets the failures', async () => {
      const { email, id } = await newUser()
      await lastLoginOf(id, '::1')
      await fail(id)
      await byEmail(store).unlock(email, changeAt(start))
      await store.throttle.clearOfEmail(email, changeAt(start))
      await byEmail(store).setPassword(email, 'a hash', changeAt(start))
      const renamed = { email: `${randomUUID()}@example.com` }
      await byEmail(store).set(email, renamed, changeAt(start))
      await store.maintenance.purge(later(365 * 24 * 3_600_000))
      assert.equal((await lastLoginOf(id, '::2'))?.failuresSince, 1)
    })

    test('the purge removes its address and browser after 180 days, and keeps its time and the failures', async () => {
      const { id } = await newUser()
      const purgeAfter = (ms: number) => store.maintenance.purge(later(180 * 24 * 3_600_000 + ms))
      await lastLoginOf(id, '::1')
      await fail(id)
      await purgeAfter(-1)
      const failures = { failuresSince: 1, guessesSince: 0 }
      const known = { at: start, ...failures, ip: '::1', userAgent: 'a browser' }
      assert.deepEqual(await store.sessions.findLastLogin(id), known)
      await purgeAfter(0)
      const rest = { ...known, ip: '', userAgent: '' }
      assert.deepEqual(await store.sessions.findLastLogin(id), rest)
    })

    test('of parallel logins each is told of another, and each failure is told once', async () => {
      const { id } = await newUser()
      await lastLoginOf(id, 'first')
      const ips = Array.from({ length: 30 }, (_, i) => `::${i}`)
      const [logins] = await Promise.all([
        Promise.all(ips.map(ip => lastLoginOf(id, ip))),
        inParallel(30, () => fail(id)),
      ])
      const told = [...logins, await lastLoginOf(id, 'last')]
      assert.deepEqual(told.map(login => login?.ip).sort(), ['first', ...ips].sort())
      const failures = told.reduce((sum, login) => sum + (login?.failuresSince ?? 0), 0)
      assert.equal(failures, 30)
    })

    test('the counters do not overflow', async () => {
      const { id } = await newUser()
      await lastLoginOf(id, '::1')
      await database.rows(`update users set failures_since_login = 999999999,
        failed_login_attempts = 999999999 where id = '${id}'`)
      assert.equal((await fail(id)).failures, 0)
      assert.equal((await lastLoginOf(id, '::2'))?.failuresSince, 0)
    })

    test('dummy rows have the columns of users, in the same order', async () => {
      const columnsOf = (table: string) =>
        database.rows(
          engine === 'sqlite'
            ? `select name, type, "notnull", dflt_value from pragma_table_info('${table}')`
            : `select column_name, data_type, is_nullable, column_default
                from information_schema.columns where table_name = '${table}' order by ordinal_position`,
        )
      assert.deepEqual(await columnsOf('unknown_user'), await columnsOf('users'))
    })

    test('each way to end a session revokes its token, also after 20 refreshes', async () => {
      const { email, id } = await newUser()
      const ends = [
        (sessionId: string) => store.sessions.end(sessionId, later(1)),
        () => byEmail(store).endSessions(email, changeAt(later(1))),
        () => byEmail(store).lock(email, later(DAY_MS), changeAt(later(1))),
      ]
      for (const end of ends) {
        await byEmail(store).unlock(email, changeAt(start))
        await open(id)
        let [sessionId, tokenId, digest] = await tokenOf(id)
        for (let i = 0; i < 20; i++) {
          const next = makeSuccessor(start, later(DAY_MS))
          await store.refreshTokens.use(tokenId, digest, next, start)
          ;[tokenId, digest] = [next.id, next.digest]
        }
        await end(sessionId)
        const unrevoked = `select id from refresh_tokens where user_id = '${id}' and revoked_at is null`
        assert.deepEqual(await database.rows(unrevoked), [])
      }
    })

    test('a token is replaced only in a live session of an active user, by one that ends with the session at the latest', async () => {
      const { id } = await newUser()
      await open(id)
      const [, tokenId, digest] = await tokenOf(id)
      const use = (expiresAt: Date, now = start) =>
        store.refreshTokens.use(tokenId, digest, makeSuccessor(start, expiresAt), now)
      const sessionEnd = later(30 * DAY_MS)
      // Another program does not end the sessions of a user that it deactivates or locks.
      for (const [column, value, before, reason] of [
        ['is_active', 'false', 'true', 'user-inactive'],
        ['locked_until', "'9000-01-01T00:00:00.000Z'", 'null', 'user-locked'],
      ]) {
        await database.rows(`update users set ${column} = ${value} where id = '${id}'`)
        assert.deepEqual(await use(sessionEnd), { kind: 'invalid', reason })
        await database.rows(`update users set ${column} = ${before} where id = '${id}'`)
      }
      const expired = { kind: 'invalid', reason: 'session-expired' }
      assert.deepEqual(await use(sessionEnd, sessionEnd), expired)
      assert.equal((await use(later(30 * DAY_MS + 1))).kind, 'found')
      assert.equal((await use(sessionEnd)).kind, 'replaced')
    })

    test('a session can be refreshed and ended while it ends all other sessions', async () => {
      for (let round = 0; round < 15; round++) {
        const { id } = await newUser()
        await open(id)
        const [sessionId, tokenId, digest] = await tokenOf(id)
        const next = makeSuccessor(start, later(DAY_MS))
        const endOthers = () => inParallel(4, () => store.sessions.endOthers(id, sessionId, start))
        const ending = endOthers()
        const using = store.refreshTokens.use(tokenId, digest, next, start)
        assert.deepEqual(await ending, [[], [], [], []])
        assert.equal((await using).kind, 'replaced')
        const again = endOthers()
        assert.equal(await store.sessions.end(sessionId, start), true)
        await again
        assert.equal(await store.sessions.countLive(id, start), 0)
      }
    })

    test('all sessions of all users end in batches, each at its own time, also expired ones, and one event says so', async context => {
      // Each batch takes a millisecond at least.
      const now = performance.now.bind(performance)
      let passedMs = 0
      context.mock.method(performance, 'now', () => now() + passedMs++)
      const [first, second] = [await newUser(), await newUser()]
      await fillSessions(database, first.id, 2_300, start, { tokensEach: 0 })
      const expired = { tokensEach: 0, idleEnd: later(-1) }
      await fillSessions(database, second.id, 300, later(-DAY_MS), expired)
      for (let i = 0; i < 5; i++) await open(second.id)
      const unended = async () => {
        const [row] = await database.rows(
          'select count(*) as n from sessions where ended_at is null',
        )
        return Number(row?.n)
      }
      const [all, at] = [await unended(), later(1)]
      let isOver = false
      const ending = store.sessions.endEvery(changeAt(at)).finally(() => {
        isOver = true
      })
      if (engine === 'sqlite') {
        // Other operations run between two batches.
        await store.sessions.countLive(first.id, start)
        assert.equal(isOver, false)
      }
      const ended = await ending
      assert.equal(await unended(), 0)
      assert.ok(ended >= 2_305 && ended <= all - 300, `${ended} of ${all}`)
      const [row] = await database.rows(`select count(distinct ended_at) as n from sessions
        where ended_at >= '${at.toISOString()}'`)
      assert.ok(Number(row?.n) >= 3)
      const events = await eventsOf(store, 'all users')
      assert.deepEqual(
        events.map(({ action, targetId }) => [action, targetId]),
        [['sessions.ended', null]],
      )
      assert.equal(await store.sessions.endEvery(changeAt(at)), 0)
    })

    test('all sessions can be ended while sessions are opened, refreshed and ended', async () => {
      for (let round = 0; round < 5; round++) {
        const { email, id } = await newUser()
        for (let i = 0; i < 5; i++) await open(id)
        const [, tokenId, digest] = await tokenOf(id)
        const next = makeSuccessor(start, later(DAY_MS))
        await Promise.all([
          inParallel(3, () => store.sessions.endEvery(changeAt(start))),
          inParallel(5, () => open(id)),
          store.refreshTokens.use(tokenId, digest, next, start),
          byEmail(store).endSessions(email, changeAt(start)),
        ])
        await store.sessions.endEvery(changeAt(start))
        assert.equal(await store.sessions.countLive(id, start), 0)
      }
    })

    test('a login at the limit of sessions never ends its own session, even if its clock is behind', async () => {
      const { id } = await newUser()
      for (const ms of [5_000, 6_000, 0]) assert.equal(await open(id, later(ms), 2), true)
      const rows = await database.rows(
        `select created_at from sessions where user_id = '${id}' and ended_at is null`,
      )
      const live = rows.map(row => new Date(String(row.created_at)).getTime() - start.getTime())
      assert.deepEqual(live.toSorted(), [0, 6_000])
    })

    test('logins parallel to a deactivation or a lock leave no live session', async () => {
      const { activate, deactivate, lock, unlock } = byEmail(store)
      const change = changeAt(start)
      for (let round = 0; round < 10; round++) {
        const { email, id } = await newUser()
        const isLocking = round % 2 === 0
        const refuse = isLocking ? lock(email, later(1), change) : deactivate(email, change)
        await Promise.all([inParallel(12, () => open(id)), refuse])
        assert.equal(await open(id), false)
        // Also when the user can log in again.
        await (isLocking ? unlock : activate)(email, change)
        assert.equal(await store.sessions.countLive(id, start), 0)
        assert.equal(await open(id), true)
        assert.equal(await store.sessions.countLive(id, start), 1)
      }
    })

    test('a purge removes replaced tokens after 65 minutes, others when they expire, and their session 65 minutes later', async () => {
      const { id } = await newUser()
      await fillSessions(database, id, 30, start, { tokensEach: 5 })
      await database.rows(`update refresh_tokens set revoked_at = created_at
        where user_id = '${id}' and token like '%1'`)
      await purgeAll(store, later(65 * MINUTE_MS - 1))
      assert.deepEqual(await rowsOf(id), { sessions: 30, tokens: 150 })
      await purgeAll(store, later(65 * MINUTE_MS))
      assert.deepEqual(await rowsOf(id), { sessions: 30, tokens: 135 })
      await purgeAll(store, later(7 * DAY_MS - 1))
      assert.deepEqual(await rowsOf(id), { sessions: 30, tokens: 135 })
      for (const ms of [0, 65 * MINUTE_MS - 1]) {
        await purgeAll(store, later(7 * DAY_MS + ms))
        assert.deepEqual(await rowsOf(id), { sessions: 30, tokens: 0 })
      }
      await purgeAll(store, later(7 * DAY_MS + 65 * MINUTE_MS))
      assert.deepEqual(await rowsOf(id), NO_ROWS)
    })

    test('an expired session stays until its replaced tokens are due: its deletion does not cascade', async () => {
      const { id } = await newUser()
      await fillSessions(database, id, 1, start, { tokensEach: 50, idleEnd: later(2 * DAY_MS) })
      const end = later(2 * DAY_MS).toISOString()
      await database.rows(`update refresh_tokens set revoked_at = '${end}' where user_id = '${id}'`)
      await purgeAll(store, later(2 * DAY_MS + 65 * MINUTE_MS - 1))
      assert.deepEqual(await rowsOf(id), { sessions: 1, tokens: 50 })
      await purgeAll(store, later(2 * DAY_MS + 65 * MINUTE_MS))
      assert.deepEqual(await rowsOf(id), NO_ROWS)
    })

    test('a purge removes an ended session 65 minutes after its end, whenever it would have expired', async () => {
      for (const idleEnd of [later(1), later(7 * DAY_MS)]) {
        const { id } = await newUser()
        await fillSessions(database, id, 30, start, { tokensEach: 0, idleEnd, endedAt: start })
        await purgeAll(store, later(65 * MINUTE_MS - 1))
        assert.deepEqual(await rowsOf(id), { sessions: 30, tokens: 0 })
        await purgeAll(store, later(65 * MINUTE_MS))
        assert.deepEqual(await rowsOf(id), NO_ROWS)
      }
    })

    test('many rows of one table do not keep the purge from the others', async () => {
      const [busy, other] = [await newUser(), await newUser()]
      await fillSessions(database, busy.id, 1, start, { tokensEach: MOST_PER_PURGE })
      await store.maintenance.purge(later(-1))
      const device = { id: randomUUID(), userId: other.id, digest: digest(randomUUID()) }
      await database.rows(`insert into devices (id, user_id, token, last_used_at, expires_at, user_agent)
        values ('${device.id}', '${other.id}', '${device.digest}', '${start.toISOString()}', '${start.toISOString()}', '')`)
      const purged = await store.maintenance.purge(later(8 * DAY_MS))
      assert.deepEqual([purged?.isDone, purged?.devices], [false, 1])
    })

    test('a purge removes a bounded number of rows per call, also if a session has many tokens', async () => {
      const { id } = await newUser()
      const kept = await newUser()
      const idleEnd = later(30 * DAY_MS)
      await fillSessions(database, kept.id, 10, start, { tokensEach: 10, idleEnd })
      const many = { tokensEach: 3_000 }
      await fillSessions(database, id, 2, start, { ...many, idleEnd: later(2 * DAY_MS) })
      const calls = await purgeAll(store, later(3 * DAY_MS))
      for (const purged of calls) {
        assert.ok(Math.max(...Object.values(purged).map(Number)) <= MOST_PER_PURGE)
      }
      assert.ok(calls.length > 2)
      assert.deepEqual(await rowsOf(id), NO_ROWS)
      assert.deepEqual(await rowsOf(kept.id), { sessions: 10, tokens: 100 })
    })

    test('a session that a user opens during its own deletion, after an activation, ends with it and is listed', async () => {
      const { id, email } = await newUser()
      await fillSessions(database, id, 1_000, start)
      let isDeleted = false
      const deleting = byEmail(store)
        .delete(email, changeAt(start))
        .finally(() => {
          isDeleted = true
        })
      const opened: string[] = []
      while (!isDeleted) {
        await store.users.activate(id, changeAt(start))
        const client = { id: randomUUID(), ip: '::1' }
        const scopes = makeScopes()
        if (await openFor(store, { id, passwordHash: 'a hash' }, scopes, start, 1_000, client)) {
          opened.push(client.id)
        }
      }
      await deleting
      assert.ok(opened.length > 0)
      const ended = await store.sessions.listEnded({ endedAt: start }, 10_000)
      const listed = new Set(ended.map(({ id }) => id))
      assert.deepEqual(
        opened.filter(id => !listed.has(id)),
        [],
      )
    })

    test('ended sessions without tokens are purged', async () => {
      const { id } = await newUser()
      await fillSessions(database, id, 2_000, start, { endedAt: start })
      await database.rows(`delete from refresh_tokens where user_id = '${id}'`)
      await purgeAll(store, later(8 * DAY_MS))
      assert.deepEqual(await rowsOf(id), NO_ROWS)
    })

    test('sessions that parallel purges skip are removed by a later purge', async () => {
      const { id } = await newUser()
      await fillSessions(database, id, 300, start, { endedAt: start })
      const idle = await newUser()
      await fillSessions(database, idle.id, 300, start, { idleEnd: later(1) })
      await Promise.all([
        store.maintenance.purge(later(2 * DAY_MS)),
        store.maintenance.purge(later(2 * DAY_MS)),
        byEmail(store).deactivate(idle.email, changeAt(later(1))),
      ])
      await purgeAll(store, later(8 * DAY_MS))
      assert.deepEqual(await rowsOf(id), NO_ROWS)
      assert.deepEqual(await rowsOf(idle.id), NO_ROWS)
    })
  })

  describe(`tables without rows on ${engine}`, async () => {
    const { store, database } = await openTestStore(engine)
    const now = new Date('2030-01-01T00:00:00.000Z')

    test('the purge finds no event to remove, and an error names a row that is missing', async () => {
      assert.equal((await store.maintenance.purge(now, 1))?.auditEvents, 0)
      await database.rows('delete from service')
      await assert.rejects(store.devices.readKey(), /"service" has lost its row/)
      await database.rows('delete from unknown_user')
      const reserving = store.attempts.reserve(makeScopes(), UNKNOWN_EMAIL, now)
      await assert.rejects(reserving, /unknown_user has lost a row/)
    })
  })
}
