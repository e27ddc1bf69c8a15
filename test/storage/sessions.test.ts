// The behaviour of many sessions, the same on every engine: they end at once and are purged in batches.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { describe, test } from 'node:test'
import type { Purged } from '../../src/domain/maintenance.ts'
import { ENGINES, openTestStore } from '../support/engines.ts'
import { fillSessions } from '../support/many-sessions.ts'
import { inParallel } from '../support/own.ts'
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
const NO_ROWS = { sessions: 0, tokens: 0 }

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
        const logins = inParallel(12, () => open(id))
        await Promise.all([logins, byEmail(store).deactivate(email, changeAt(start))])
        // Also after the user is activated again.
        await byEmail(store).activate(email, changeAt(start))
        assert.equal(await store.sessions.countLive(id, start), 0)
        assert.equal(await open(id), true)
        assert.equal(await store.sessions.countLive(id, start), 1)
      }
    })

    test('a purge keeps the tokens of an ended session, and replaced ones of a live session, until they expire', async () => {
      const [ended, live] = [await newUser(), await newUser()]
      await fillSessions(database, ended.id, 30, start, { tokensEach: 5, endedAt: start })
      await fillSessions(database, live.id, 1, start, { tokensEach: 3 })
      // So that their reuse is detected.
      await database.rows(
        `update refresh_tokens set revoked_at = created_at where user_id = '${live.id}'`,
      )
      await purgeAll(later(7 * DAY_MS - 1))
      assert.deepEqual(await rowsOf(ended.id), { sessions: 30, tokens: 150 })
      assert.deepEqual(await rowsOf(live.id), { sessions: 1, tokens: 3 })
      await purgeAll(later(7 * DAY_MS))
      for (const { id } of [ended, live]) assert.deepEqual(await rowsOf(id), NO_ROWS)
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
        assert.ok(Math.max(...Object.values(purged).map(Number)) <= MOST_PER_PURGE)
      }
      assert.ok(calls.length > 2)
      assert.deepEqual(await rowsOf(id), NO_ROWS)
      assert.deepEqual(await rowsOf(kept.id), { sessions: 10, tokens: 100 })
    })

    test('ended sessions without tokens are purged', async () => {
      const { id } = await newUser()
      await fillSessions(database, id, 2_000, start, { endedAt: start })
      await database.rows(`delete from refresh_tokens where user_id = '${id}'`)
      await purgeAll(later(8 * DAY_MS))
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
      await purgeAll(later(8 * DAY_MS))
      assert.deepEqual(await rowsOf(id), NO_ROWS)
      assert.deepEqual(await rowsOf(idle.id), NO_ROWS)
    })
  })
}
