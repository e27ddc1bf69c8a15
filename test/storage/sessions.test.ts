// The behaviour of many sessions, the same on every engine: they end at once and are purged in batches.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { describe, test } from 'node:test'
import type { Purged } from '../../src/domain/maintenance.ts'
import { ENGINES, openTestStore } from '../support/engines.ts'
import { fillSessions } from '../support/many-sessions.ts'
import {
  byEmail,
  changeAt,
  insertTestUser,
  makeScopes,
  makeSuccessor,
  openFor,
  toNumbers,
} from './fixtures.ts'

const DAY_MS = 24 * 3_600_000
/** Most rows of one table that one call of the purge may remove. */
const MOST_PER_PURGE = 2_500

for (const engine of ENGINES) {
  describe(`many sessions on ${engine}`, async () => {
    const { store, database } = await openTestStore(engine)

    const start = new Date('2030-01-01T00:00:00.000Z')
    const later = (ms: number) => new Date(start.getTime() + ms)
    const newUser = async () => {
      const email = `${randomUUID()}@example.com`
      return { email, id: await insertTestUser(store, email, start) }
    }
    const open = (id: string) => openFor(store, { id, passwordHash: 'a hash' }, makeScopes(), start)
    const rowsOf = async (userId: string) => {
      const [row] = await database.rows(
        `select (select count(*) from sessions where user_id = '${userId}') as sessions,
          (select count(*) from refresh_tokens where user_id = '${userId}') as tokens`,
      )
      return toNumbers(row)
    }
    /** Purges until no row is due; returns the result of each call. */
    async function purgeAll(now: Date): Promise<Purged[]> {
      const calls: Purged[] = []
      for (;;) {
        const purged = await store.maintenance.purge(now)
        assert.ok(purged)
        calls.push(purged)
        if (purged.isDone) return calls
      }
    }

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
        const [session] = await database.rows(
          `select s.id, t.id as token_id, t.token from sessions s join refresh_tokens t on t.session_id = s.id
            where s.user_id = '${id}' and s.ended_at is null`,
        )
        let [tokenId, digest] = [String(session?.token_id), String(session?.token)]
        for (let i = 0; i < 20; i++) {
          const next = makeSuccessor(start, later(DAY_MS))
          await store.refreshTokens.use(tokenId, digest, next, start)
          ;[tokenId, digest] = [next.id, next.digest]
        }
        await end(String(session?.id))
        const unrevoked = `select id from refresh_tokens where user_id = '${id}' and revoked_at is null`
        assert.deepEqual(await database.rows(unrevoked), [])
      }
    })

    const onlySessionOf = async (userId: string) => {
      const [session] =
        (await store.sessions.listLive(userId, { afterId: null, limit: 1 }, start)) ?? []
      assert.ok(session)
      return session.id
    }

    test('a token is replaced only in a live session of an active user, by one that ends with the session at the latest', async () => {
      const { id } = await newUser()
      await open(id)
      const [row] = await database.rows(
        `select id, token from refresh_tokens where user_id = '${id}'`,
      )
      const use = (expiresAt: Date, now = start) => {
        const next = makeSuccessor(start, expiresAt)
        return store.refreshTokens.use(String(row?.id), String(row?.token), next, now)
      }
      const sessionEnd = later(30 * DAY_MS)
      // Another program does not end the sessions of a user that it deactivates.
      await database.rows(`update users set is_active = false where id = '${id}'`)
      assert.deepEqual(await use(sessionEnd), { kind: 'invalid', reason: 'user-inactive' })
      await database.rows(`update users set is_active = true where id = '${id}'`)
      const expired = { kind: 'invalid', reason: 'session-expired' }
      assert.deepEqual(await use(sessionEnd, sessionEnd), expired)
      assert.equal((await use(later(30 * DAY_MS + 1))).kind, 'found')
      assert.equal((await use(sessionEnd)).kind, 'replaced')
    })

    test('a session can be refreshed and ended while it ends all other sessions', async () => {
      for (let round = 0; round < 15; round++) {
        const { id } = await newUser()
        await open(id)
        const sessionId = await onlySessionOf(id)
        const [row] = await database.rows(
          `select id, token from refresh_tokens where session_id = '${sessionId}'`,
        )
        const next = makeSuccessor(start, later(DAY_MS))
        const endOthers = Array.from({ length: 4 }, () =>
          store.sessions.endOthers(id, sessionId, start),
        )
        const using = store.refreshTokens.use(String(row?.id), String(row?.token), next, start)
        assert.deepEqual(await Promise.all(endOthers), [[], [], [], []])
        assert.equal((await using).kind, 'replaced')
        const again = Array.from({ length: 4 }, () =>
          store.sessions.endOthers(id, sessionId, start),
        )
        assert.equal(await store.sessions.end(sessionId, start), true)
        await Promise.all(again)
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
      const unended = async () =>
        Number(
          (await database.rows('select count(*) as n from sessions where ended_at is null'))[0]?.n,
        )
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
      const page = { since: null, beforeId: null, limit: 10 }
      const { events } = await store.audit.list('all users', page)
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
        const [row] = await database.rows(
          `select id, token from refresh_tokens where user_id = '${id}'`,
        )
        const next = makeSuccessor(start, later(DAY_MS))
        await Promise.all([
          ...Array.from({ length: 3 }, () => store.sessions.endEvery(changeAt(start))),
          ...Array.from({ length: 5 }, () => open(id)),
          store.refreshTokens.use(String(row?.id), String(row?.token), next, start),
          byEmail(store).endSessions(email, changeAt(start)),
        ])
        await store.sessions.endEvery(changeAt(start))
        assert.equal(await store.sessions.countLive(id, start), 0)
      }
    })

    test('a login at the limit of sessions never ends its own session, even if its clock is behind', async () => {
      const { id } = await newUser()
      const openAt = (now: Date) =>
        openFor(store, { id, passwordHash: 'a hash' }, makeScopes(), now, 2)
      for (const ms of [5_000, 6_000, 0]) assert.equal(await openAt(later(ms)), true)
      const rows = await database.rows(
        `select created_at from sessions where user_id = '${id}' and ended_at is null`,
      )
      const live = rows.map(row => new Date(String(row.created_at)).getTime() - start.getTime())
      assert.deepEqual(live.toSorted(), [0, 6_000])
    })

    test('logins parallel to a deactivation leave no live session', async () => {
      for (let round = 0; round < 5; round++) {
        const { email, id } = await newUser()
        const logins = Array.from({ length: 12 }, () => open(id))
        const change = byEmail(store).deactivate(email, changeAt(start))
        await Promise.all([...logins, change])
        assert.equal(await store.sessions.countLive(id, start), 0)
        await byEmail(store).activate(email, changeAt(start))
        assert.equal(
          await store.sessions.countLive(id, start),
          0,
          'also after the user is activated again',
        )
        assert.equal(await open(id), true)
        assert.equal(await store.sessions.countLive(id, start), 1)
      }
    })

    test('a purge keeps an ended session until its last token expires', async () => {
      const { id } = await newUser()
      await fillSessions(database, id, 30, start, { tokensEach: 5, endedAt: start })
      await purgeAll(later(7 * DAY_MS - 1))
      assert.deepEqual(await rowsOf(id), { sessions: 30, tokens: 150 })
      await purgeAll(later(7 * DAY_MS))
      assert.deepEqual(await rowsOf(id), { sessions: 0, tokens: 0 })
    })

    test('a purge keeps replaced tokens of a live session until they expire, so that reuse is detected', async () => {
      const { id } = await newUser()
      await fillSessions(database, id, 1, start, { tokensEach: 3 })
      await database.rows(
        `update refresh_tokens set revoked_at = created_at where user_id = '${id}'`,
      )
      await purgeAll(later(7 * DAY_MS - 1))
      assert.deepEqual(await rowsOf(id), { sessions: 1, tokens: 3 })
      await purgeAll(later(7 * DAY_MS))
      assert.deepEqual(await rowsOf(id), { sessions: 0, tokens: 0 })
    })

    test('a purge removes a bounded number of rows per call, also if a session has many tokens', async () => {
      const { id } = await newUser()
      const kept = await newUser()
      const idleEnd = later(30 * DAY_MS)
      await fillSessions(database, kept.id, 10, start, { tokensEach: 10, idleEnd })
      const many = { tokensEach: 3_000 }
      await fillSessions(database, id, 2, start, { ...many, idleEnd: later(2 * DAY_MS) })
      const calls = await purgeAll(later(3 * DAY_MS))
      for (const purged of calls) {
        for (const rows of Object.values(purged)) {
          assert.ok(Number(rows) <= MOST_PER_PURGE, String(rows))
        }
      }
      assert.ok(calls.length > 2)
      assert.deepEqual(await rowsOf(id), { sessions: 0, tokens: 0 })
      assert.deepEqual(await rowsOf(kept.id), { sessions: 10, tokens: 100 })
    })

    test('ended sessions without tokens are purged', async () => {
      const { id } = await newUser()
      await fillSessions(database, id, 2_000, start, { endedAt: start })
      await database.rows(`delete from refresh_tokens where user_id = '${id}'`)
      await purgeAll(later(8 * DAY_MS))
      assert.deepEqual(await rowsOf(id), { sessions: 0, tokens: 0 })
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
      await purgeAll(later(8 * DAY_MS))
      assert.deepEqual(await rowsOf(id), { sessions: 0, tokens: 0 })
      assert.deepEqual(await rowsOf(idle.id), { sessions: 0, tokens: 0 })
    })
  })
}
