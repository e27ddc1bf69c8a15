// Deleted users are forgotten in the audit, and old events are removed, the same on every engine.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { describe, test } from 'node:test'
import { ENGINES, openTestStore } from '../support/engines.ts'
import { changeAt, insertTestUser, makeScopes, openFor } from './fixtures.ts'

const DAY_MS = 24 * 3_600_000

for (const engine of ENGINES) {
  describe(`forgetting on ${engine}`, async () => {
    const { store, database } = await openTestStore(engine)
    const start = new Date('2030-01-01T00:00:00.000Z')
    const change = changeAt(start)
    const newName = (prefix = '') => `${prefix}${randomUUID()}`
    const newEmail = (prefix = '') => `${newName(prefix)}@example.com`
    const eventsOf = async (target: string | null) =>
      (await store.audit.list(target, { since: null, beforeId: null, limit: 10_000 })).events

    test('other users keep their events, also one whose email contains the deleted one', async () => {
      const email = newEmail()
      const longer = `x${email}`
      const id = await insertTestUser(store, email, start)
      const otherId = await insertTestUser(store, longer, start)
      // The email goes to another user, and has a history with both.
      await store.users.set(id, { email: newEmail() }, change)
      await store.users.set(otherId, { name: email }, change)
      await store.users.set(otherId, { email }, change)
      const others = async () =>
        (await eventsOf(longer)).filter(({ targetId }) => targetId === otherId)
      const before = await others()
      await store.users.delete(id, change)
      assert.deepEqual(await others(), before)
      assert.equal((await store.users.findById(otherId))?.email, email)
    })

    test('a user that is added again has a history of its own, also with the same id', async () => {
      const email = newEmail()
      const id = await insertTestUser(store, email, start)
      await store.users.delete(id, change)
      assert.deepEqual(await eventsOf(email), [])
      for (const nextId of [randomUUID(), id]) {
        const unsaid = { role: null, isActive: null, createdAt: null, lockedUntil: null }
        const user = { id: nextId, isIdGiven: true, email, passwordHash: 'h', name: 'N', ...unsaid }
        const options = { mayUpdate: false, isDryRun: false }
        assert.deepEqual(await store.imports.run([user], options, change), ['added'])
        const expected = [['user.imported', nextId]]
        const shown = (events: { action: string; targetId: string | null }[]) =>
          events.map(({ action, targetId }) => [action, targetId])
        assert.deepEqual(shown(await eventsOf(email)), expected)
        const page = { beforeId: null, limit: 10 }
        const own = await store.audit.listOfUser({ id: nextId, email }, page)
        assert.deepEqual(shown(own), expected)
        await store.users.delete(nextId, change)
      }
    })

    test('whatever is done meanwhile, a deletion leaves nothing of the user', async () => {
      for (let round = 0; round < 10; round++) {
        const emails = [newEmail('race-'), newEmail('race-'), newEmail('race-')]
        const [email = '', second = '', third = ''] = emails
        const id = await insertTestUser(store, email, start)
        await openFor(store, { id, passwordHash: 'a hash' }, makeScopes(), start)
        const scopes = makeScopes(email)
        await store.attempts.reserve(scopes, email, start)
        await store.attempts.fail(scopes, id, start)
        const login = () => openFor(store, { id, passwordHash: 'a hash' }, makeScopes(), start)
        await Promise.all([
          store.users.set(id, { email: second, name: newName('race-') }, change),
          store.users.delete(id, change),
          login(),
          store.users.set(id, { email: third }, change),
          store.users.activate(id, change),
          store.throttle.clearOfEmail(email, change),
          store.users.lock(id, new Date('2031-01-01T00:00:00.000Z'), change),
          store.users.delete(id, change),
          store.sessions.endAll(id, change),
          login(),
          store.users.setPassword(id, 'another hash', change),
          store.users.activate(id, change),
        ])
        assert.equal(await store.users.findById(id), null)
        const audit = await database.rows('select * from audit_events')
        assert.ok(!JSON.stringify(audit).includes(id))
      }
      const left = (await eventsOf(null)).filter(event => JSON.stringify(event).includes('race-'))
      // A block that is cleared when no user has the email is recorded with the email.
      for (const { action } of left) assert.equal(action, 'throttle.cleared')
    })

    test('after AUDIT_DAYS the purge removes events, whatever the order of their times', async () => {
      const insertEvents = (count: number, at: Date, target: string) =>
        database.rows(`insert into audit_events (at, actor_kind, actor, host, action, target)
          with recursive n(i) as (select 1 union all select i + 1 from n where i < ${count})
          select ${engine === 'postgres' ? 'timestamptz ' : ''}'${at.toISOString()}', 'user', 'admin',
            'machine', 'user.changed', '${target}' from n`)
      const purgeAll = async (now: Date, auditDays?: number) => {
        let auditEvents = 0
        for (;;) {
          const purged = await store.maintenance.purge(now, auditDays)
          assert.ok(purged)
          auditEvents += purged.auditEvents
          if (purged.isDone) return auditEvents
        }
      }
      const moment = new Date(start.getTime() + 30 * DAY_MS + 1)
      const [old, young, early] = [newEmail('old'), newEmail('new'), newEmail('ahead')]
      await insertEvents(700, new Date(start.getTime() + 100 * DAY_MS), early)
      await insertEvents(1_300, start, old)
      await insertEvents(3, moment, young)
      await insertEvents(5, start, old)
      const [row] = await database.rows('select count(*) as n from audit_events')
      assert.equal(await purgeAll(moment), 0)
      assert.equal(await purgeAll(moment, 31), 0)
      assert.equal(await purgeAll(moment, 30), Number(row?.n) - 703)
      assert.equal(await purgeAll(moment, 30), 0)
      for (const [target, left] of [
        [old, 0],
        [young, 3],
        [early, 700],
      ] as const) {
        assert.equal((await eventsOf(target)).length, left)
      }
    })
  })
}
