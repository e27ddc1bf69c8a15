// The record of what administrators change, the same on every engine.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { describe, test } from 'node:test'
import type { AuditEvent, AuditStore, ListedEvents } from '../../src/domain/audit.ts'
import { ENGINES, openTestStore } from '../engines.ts'
import { changeAt, insertTestUser, makeScopes, openFor } from './fixtures.ts'

const MANY = 10_000

for (const engine of ENGINES) {
  describe(`audit on ${engine}`, async () => {
    const { store, database } = await openTestStore(engine)
    const start = new Date('2030-01-01T00:00:00.000Z')
    const change = changeAt(start)
    const newEmail = () => `${randomUUID()}@example.com`
    const eventsOf = async (target: string, limit = 100) =>
      (await store.listAuditEvents(target, { since: null, beforeId: null, limit })).events
    const actionsOf = (events: AuditEvent[]) => events.map(({ action }) => action)

    test('an event says what changed, when, by which actor, and nothing secret', async () => {
      const email = newEmail()
      const id = await insertTestUser(store, email, start)
      await store.setPassword(email, 'a secret hash', change)
      await store.deactivateUser(email, change)
      const events = await eventsOf(email)
      const common = { at: start, by: change.by, target: email, targetId: id }
      assert.deepEqual(
        events.map(({ id: _, ...event }) => event),
        [
          {
            ...common,
            action: 'user.deactivated',
            before: { isActive: true },
            after: { isActive: false },
          },
          { ...common, action: 'password.set', before: null, after: null },
          { ...common, action: 'user.added', before: null, after: { name: 'Name', role: 'user' } },
        ],
      )
      assert.ok(!JSON.stringify(events).includes('hash'))
    })

    test('a change that changes nothing leaves no event', async () => {
      const email = newEmail()
      await insertTestUser(store, email, start)
      const forEver = new Date('9999-12-31T23:59:59.999Z')
      for (let i = 0; i < 3; i++) {
        assert.equal(await store.activateUser(email, change), true)
        assert.equal(await store.unlockUser(email, change), true)
        assert.equal(await store.lockUser(email, forEver, change), true)
      }
      assert.deepEqual(actionsOf(await eventsOf(email)), [
        'user.locked',
        'user.unlocked',
        'user.locked',
        'user.unlocked',
        'user.locked',
        'user.added',
      ])
      await store.deactivateUser(email, change)
      await store.deactivateUser(email, change)
      assert.equal((await eventsOf(email)).length, 7)
      const unknown = newEmail()
      assert.equal(await store.unlockUser(unknown, change), false)
      assert.equal(await store.deactivateUser(unknown, change), false)
      assert.deepEqual(await eventsOf(unknown), [])
    })

    test('a change for one user does not reach another one that has got its email', async () => {
      const [email, moved, newcomer] = [newEmail(), newEmail(), newEmail()]
      const id = await insertTestUser(store, email, start)
      await insertTestUser(store, newcomer, start)
      assert.equal(await store.setUser(email, { email: moved }, change), 'changed')
      assert.equal(await store.setUser(newcomer, { email }, change), 'changed')
      const before = await store.findUserByEmail(email)
      const only = { ...change, userId: id }
      const until = new Date('2031-01-01T00:00:00.000Z')
      assert.equal(await store.setPassword(email, 'another hash', only), false)
      assert.equal(await store.lockUser(email, until, only), false)
      assert.equal(await store.deactivateUser(email, only), false)
      assert.equal(await store.activateUser(email, only), false)
      assert.equal(await store.unlockUser(email, only), false)
      assert.equal(await store.endUserSessions(email, only), null)
      assert.equal(await store.setUser(email, { name: 'Other' }, only), 'unknown')
      assert.equal(await store.deleteUser(email, only), null)
      assert.deepEqual(await store.findUserByEmail(email), before)
      assert.equal(await store.lockUser(moved, until, only), true)
    })

    test('a change of an unknown email moves no failures of devices', async () => {
      const [email, other] = [newEmail(), newEmail()]
      const [device] = makeScopes(email).filter(({ name }) => name === 'pair')
      assert.ok(device)
      const scopes = [{ ...device, name: 'device' as const }]
      await store.reserveAttempt(scopes, email, start)
      await store.settleFailure(scopes, null, start)
      assert.equal(await store.setUser(email, { email: other }, change), 'unknown')
      assert.equal(await store.clearScopesOfEmail(other, change), false)
      assert.equal(await store.clearScopesOfEmail(email, change), true)
    })

    test('an unlock of failures is an event, also without a user', async () => {
      const email = newEmail()
      const scopes = makeScopes(email)
      await store.reserveAttempt(scopes, email, start)
      await store.settleFailure(scopes, null, start)
      await store.unlockUser(email, change)
      await store.unlockUser(email, change)
      assert.deepEqual(actionsOf(await eventsOf(email)), ['user.unlocked'])
    })

    test('sessions and devices: the event names the session, and belongs to the history of its user', async () => {
      const email = newEmail()
      const id = await insertTestUser(store, email, start)
      await openFor(store, { id, passwordHash: 'a hash' }, makeScopes(), start)
      const [session] = (await store.listLiveSessions(id, { afterId: null, limit: 1 }, start)) ?? []
      assert.ok(session)
      assert.equal(await store.endUserSession(session.id, change), true)
      assert.equal(await store.endUserSession(session.id, change), false)
      assert.equal(await store.endUserSessions(email, change), 0)
      assert.equal(await store.endUserSessions(newEmail(), change), null)
      const expected = ['sessions.ended', 'session.ended', 'user.added']
      assert.deepEqual(actionsOf(await eventsOf(email)), expected)
      assert.deepEqual(actionsOf(await eventsOf(session.id)), expected)
    })

    test('the events of a deleted user stay, and a new user of the email is another one', async () => {
      const email = newEmail()
      const first = await insertTestUser(store, email, start)
      await store.deleteUser(email, change)
      const second = await insertTestUser(store, email, start)
      const events = await eventsOf(email)
      assert.deepEqual(
        events.map(({ action, targetId }) => [action, targetId]),
        [
          ['user.added', second],
          ['user.deleted', first],
          ['user.added', first],
        ],
      )
    })

    test('a change that fails leaves no event, and an event that fails prevents the change', async () => {
      const email = newEmail()
      const id = await insertTestUser(store, email, start)
      const other = { id: randomUUID(), email, passwordHash: 'h', name: 'n', role: 'r' }
      assert.equal(await store.insertUser(other, change), false)
      const tooLong = { ...change, by: { ...change.by, host: 'h'.repeat(256) } }
      await assert.rejects(store.deactivateUser(email, tooLong))
      await assert.rejects(store.deleteUser(email, tooLong))
      await assert.rejects(store.setPassword(email, 'another', tooLong))
      assert.deepEqual(actionsOf(await eventsOf(email)), ['user.added'])
      const user = await store.findUserByEmail(email)
      assert.ok(user?.isActive && user.passwordHash === 'a hash' && user.id === id)
    })

    test('of parallel changes each is recorded once', async () => {
      const email = newEmail()
      await insertTestUser(store, email, start)
      await Promise.all(
        Array.from({ length: 20 }, (_, i) =>
          i % 2 ? store.activateUser(email, change) : store.deactivateUser(email, change),
        ),
      )
      const states = (await eventsOf(email)).reverse().map(({ after }) => after?.isActive ?? true)
      for (const [i, isActive] of states.entries()) {
        if (i > 0) assert.notEqual(isActive, states[i - 1])
      }
      assert.equal((await store.findUserByEmail(email))?.isActive, states.at(-1))
    })

    test('events can be neither changed nor removed', async () => {
      await insertTestUser(store, newEmail(), start)
      const statements = ["update audit_events set actor = 'other'", 'delete from audit_events']
      if (engine === 'postgres') statements.push('truncate audit_events')
      for (const statement of statements)
        await assert.rejects(database.rows(statement), /append-only/)
    })

    test(`pages of ${MANY} events have each event once`, async () => {
      const email = newEmail()
      const id = await insertTestUser(store, email, start)
      const series = `with recursive n(i) as (select 1 union all select i + 1 from n where i < ${MANY})`
      await database.rows(`insert into audit_events (at, actor_kind, actor, host, action, target, target_id)
        ${series} select '${start.toISOString()}', 'user', 'admin', 'machine', 'user.changed',
          case when i % 2 = 0 then '${email}' else 'earlier-' || i || '@example.com' end, '${id}' from n`)
      const ids = await idsOfPages(store, email, null, 999)
      assert.deepEqual(
        ids,
        [...new Set(ids)].toSorted((a, b) => b - a),
      )
      assert.equal(ids.length, MANY + 1)
    })
  })

  test(`no event since a moment is missed, whatever the order of the times, on ${engine}`, async () => {
    const { store, database } = await openTestStore(engine)
    const start = new Date('2030-01-01T00:00:00.000Z')
    const email = 'ann@example.com'
    const id = await insertTestUser(store, email, start)
    // In all more than one call looks at.
    const DAYS = [
      [30, '02'],
      [12_000, '01'],
      [30, '03'],
      [12_000, '01'],
      [5, '02'],
      [10, '01'],
    ] as const
    for (const [events, day] of DAYS) {
      await database.rows(`insert into audit_events (at, actor_kind, actor, host, action, target, target_id)
        with recursive n(i) as (select 1 union all select i + 1 from n where i < ${events})
        select '2030-01-${day}T00:00:00.000Z', 'user', 'a', 'a', 'user.changed',
          case when i % 2 = 0 then '${email}' else 'old@example.com' end, '${id}' from n`)
    }
    const since = new Date('2030-01-02T00:00:00.000Z')
    const expected = (
      await database.rows(`select id from audit_events
        where at >= '2030-01-02T00:00:00.000Z' order by id desc`)
    ).map(row => Number(row.id))
    assert.equal(expected.length, 65)
    for (const target of [null, email]) {
      for (const limit of [7, 1_000]) {
        assert.deepEqual(await idsOfPages(store, target, since, limit), expected)
      }
    }
    assert.deepEqual(await idsOfPages(store, null, new Date('2030-01-04T00:00:00.000Z'), 10), [])
  })
}

async function idsOfPages(
  store: AuditStore,
  target: string | null,
  since: Date | null,
  limit: number,
): Promise<number[]> {
  const ids: number[] = []
  for (let beforeId: number | null = null; ; ) {
    const page: ListedEvents = await store.listAuditEvents(target, { since, beforeId, limit })
    assert.ok(page.events.length <= limit)
    ids.push(...page.events.map(({ id }) => id))
    if (page.next === null) return ids
    beforeId = page.next
  }
}
