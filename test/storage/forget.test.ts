// Deleted users are forgotten in the audit, and old events are removed, the same on every engine.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { describe, test } from 'node:test'
import { ENGINES, openTestStore } from '../support/engines.ts'
import { changeAt, insertTestUser, makeScopes, openFor } from './fixtures.ts'

const DAY_MS = 24 * 3_600_000
const CLEARED = { failures: 0, blockedUntil: null }
const PSEUDONYM = /^deleted-user-[0-9a-f]{16}$/

for (const engine of ENGINES) {
  describe(`forgetting on ${engine}`, async () => {
    const { store, database } = await openTestStore(engine)
    const start = new Date('2030-01-01T00:00:00.000Z')
    const change = changeAt(start)
    const newName = (prefix = '') => `${prefix}${randomUUID()}`
    const newEmail = (prefix = '') => `${newName(prefix)}@example.com`
    const eventsOf = async (target: string | null, limit = 10_000) =>
      (await store.audit.list(target, { since: null, beforeId: null, limit })).events
    const storedText = async () =>
      JSON.stringify(await database.rows('select * from audit_events order by id'))
    const clear = async (email: string) => {
      const scopes = makeScopes(email)
      await store.attempts.reserve(scopes, email, start)
      await store.attempts.fail(scopes, null, start)
      assert.equal(await store.throttle.clearOfEmail(email, change), true)
    }
    /** A user with events of every kind, under three emails and two names. */
    async function insertKnownUser(emails: string[], names: string[], ip: string) {
      const [first = '', ...others] = emails
      const id = randomUUID()
      const user = { id, email: first, passwordHash: 'a hash', name: names[0] ?? '', role: 'user' }
      assert.equal(await store.users.insert(user, change), true)
      for (const email of others) await store.users.set(id, { email }, change)
      for (const name of names.slice(1)) await store.users.set(id, { name }, change)
      const sessionId = randomUUID()
      const client = { id: sessionId, ip }
      const scopes = makeScopes()
      assert.ok(await openFor(store, { id, passwordHash: 'a hash' }, scopes, start, 100, client))
      await store.attempts.reserve(scopes, first, start)
      await store.attempts.fail(scopes, id, start)
      await clear(emails.at(-1) ?? '')
      assert.equal(await store.sessions.endByAdministrator(sessionId, change), true)
      assert.equal(await store.users.setPassword(id, 'another hash', change), true)
      assert.equal(await store.sessions.endAll(id, change), 0)
      return { id, sessionId }
    }

    test('every event of a deleted user has one pseudonym in place of emails, names and addresses', async () => {
      const emails = [newEmail(), newEmail(), newEmail()]
      const names = [newName('Ann '), newName('Lee ')]
      const ip = '203.0.113.77'
      await clear(emails[0] ?? '') // before the email has a user
      const { id, sessionId } = await insertKnownUser(emails, names, ip)
      const before = await store.audit.listOfUser(
        { id, email: emails[2] ?? '' },
        { beforeId: null, limit: 100 },
      )
      assert.equal(await store.users.delete(id, change), 0)
      const text = await storedText()
      for (const known of [...emails, ...names, id, sessionId, ip]) {
        assert.ok(!text.includes(known), known)
      }
      const pseudonym = (await eventsOf(null)).find(
        ({ action }) => action === 'user.deleted',
      )?.target
      assert.match(pseudonym ?? '', PSEUDONYM)
      const events = await eventsOf(pseudonym ?? '')
      assert.deepEqual(
        events.map(({ action, before, after }) => [action, before, after]).reverse(),
        [
          ['throttle.cleared', { failures: 1, blockedUntil: null }, CLEARED],
          ['user.added', null, { role: 'user' }],
          ...emails.slice(1).map(() => ['user.changed', {}, {}]),
          ['user.changed', {}, {}],
          ['throttle.cleared', { failures: 1, blockedUntil: null }, CLEARED],
          ...['session.ended', 'password.set', 'sessions.ended'].map(action => [
            action,
            null,
            null,
          ]),
          ['user.deleted', { role: 'user' }, null],
        ],
      )
      // Nothing else of an event changes.
      const kept = new Map(events.map(event => [event.id, event]))
      for (const { id, at, by, action } of before) {
        const event = kept.get(id)
        assert.deepEqual([event?.at, event?.by, event?.action], [at, by, action])
      }
    })

    test('other users keep their events, also one whose email contains the deleted one', async () => {
      const email = newEmail()
      const longer = `x${email}`
      const id = await insertTestUser(store, email, start)
      const otherId = await insertTestUser(store, longer, start)
      // The email goes to another user, and has a history with both.
      await store.users.set(id, { email: newEmail() }, change)
      await store.users.set(otherId, { name: email }, change)
      await store.users.set(otherId, { email }, change)
      const others = await eventsOf(longer)
      await store.users.delete(id, change)
      assert.deepEqual(
        (await eventsOf(longer)).filter(({ targetId }) => targetId === otherId),
        others.filter(({ targetId }) => targetId === otherId),
      )
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
        const own = await store.audit.listOfUser(
          { id: nextId, email },
          { beforeId: null, limit: 10 },
        )
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
        const results = await Promise.allSettled([
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
        for (const { status } of results) assert.equal(status, 'fulfilled')
        assert.equal(await store.users.findById(id), null)
        assert.ok(!(await storedText()).includes(id))
      }
      const left = (await eventsOf(null)).filter(event => JSON.stringify(event).includes('race-'))
      // A block that is cleared when no user has the email is recorded with the email.
      for (const { action } of left) assert.equal(action, 'throttle.cleared')
    })

    async function insertEvents(count: number, at: Date, target: string, id = 'null') {
      const idText = engine === 'postgres' && id !== 'null' ? `${id}::uuid` : id
      const atText = `'${at.toISOString()}'${engine === 'postgres' ? '::timestamptz' : ''}`
      await database.rows(`insert into audit_events (at, actor_kind, actor, host, action, target, target_id, after)
        with recursive n(i) as (select 1 union all select i + 1 from n where i < ${count})
        select ${atText}, 'user', 'admin', 'machine', 'user.changed', ${target}, ${idText},
          '{"name":"Ann"}' from n`)
    }

    const purgeAll = async (now: Date, auditDays?: number) => {
      let auditEvents = 0
      for (;;) {
        const purged = await store.maintenance.purge(now, auditDays)
        assert.ok(purged)
        auditEvents += purged.auditEvents
        if (purged.isDone) return auditEvents
      }
    }

    test('after AUDIT_DAYS the purge removes events, whatever the order of their times', async () => {
      const ahead = new Date(start.getTime() + 100 * DAY_MS)
      const marks = ['old', 'new', 'ahead'].map(kind => `${newName(kind)}@example.com`)
      const [old = '', young = '', early = ''] = marks
      await insertEvents(700, ahead, `'${early}'`)
      await insertEvents(1_300, start, `'${old}'`)
      const moment = new Date(start.getTime() + 30 * DAY_MS + 1)
      await insertEvents(3, moment, `'${young}'`)
      await insertEvents(5, start, `'${old}'`)
      const total = Number((await database.rows('select count(*) as n from audit_events'))[0]?.n)
      assert.equal(await purgeAll(moment), 0)
      assert.equal(await purgeAll(moment, 31), 0)
      assert.equal(await purgeAll(moment, 30), total - 703)
      assert.equal(await purgeAll(moment, 30), 0)
      assert.deepEqual(
        [
          (await eventsOf(old)).length,
          (await eventsOf(young)).length,
          (await eventsOf(early)).length,
        ],
        [0, 3, 700],
      )
    })
  })
}
