// The record of what administrators change: deleted users are forgotten in it, and old events are removed. The same on every
// engine.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { describe, test } from 'node:test'
import type { ThrottleScope } from '../../src/domain/attempt.ts'
import type { AuditEvent, ListedEvents } from '../../src/domain/audit.ts'
import { ENGINES, openPatientStore, openTestStore } from '../support/engines.ts'
import { inParallel } from '../support/own.ts'
import {
  byEmail,
  changeAt,
  eventsOf,
  insertTestUser,
  makeScopes,
  openFor,
  purgeAll,
} from './fixtures.ts'

const DAY_MS = 24 * 3_600_000

/** An event without its id. */
const withoutId = ({ id: _, ...event }: AuditEvent) => event

for (const engine of ENGINES) {
  describe(`audit on ${engine}`, async () => {
    const { store, database } = await openTestStore(engine)
    const start = new Date('2030-01-01T00:00:00.000Z')
    const change = changeAt(start)
    const newEmail = (prefix = '') => `${prefix}${randomUUID()}@example.com`
    const listed = (target: string | null) => eventsOf(store, target)
    const actionsOf = async (target: string) => (await listed(target)).map(({ action }) => action)

    test('events of what is no change of the database are recorded together', async () => {
      const [target, after] = [randomUUID(), { role: 'read', expiresAt: null }]
      const event = { target, targetId: null }
      await store.audit.record(change, [
        { ...event, action: 'token.added', after },
        { ...event, action: 'token.revoked', before: after },
      ])
      await store.audit.record(change, [])
      const common = { ...event, at: start, by: change.by }
      assert.deepEqual((await listed(target)).map(withoutId), [
        { ...common, action: 'token.revoked', before: after, after: null },
        { ...common, action: 'token.added', before: null, after },
      ])
    })

    test('a change reaches its user under a new email, and not another one that has got the old email', async () => {
      const [email, moved, newcomer] = [newEmail(), newEmail(), newEmail()]
      const id = await insertTestUser(store, email, start)
      const otherId = await insertTestUser(store, newcomer, start)
      assert.ok(Object(await store.users.set(id, { email: moved }, change)).isChanged)
      assert.ok(Object(await store.users.set(otherId, { email }, change)).isChanged)
      const before = await store.users.findByEmail(email)
      const until = new Date('2031-01-01T00:00:00.000Z')
      assert.ok(await store.users.setPassword(id, 'another hash', change))
      assert.ok(await store.users.lock(id, until, change))
      assert.ok(await store.users.unlock(id, change))
      assert.ok(await store.users.deactivate(id, change))
      assert.ok(await store.users.activate(id, change))
      assert.equal(await store.sessions.endAll(id, change), 0)
      assert.ok(Object(await store.users.set(id, { name: 'Other' }, change)).isChanged)
      const events = (await listed(moved)).filter(({ target }) => target === moved)
      assert.equal(events.length, 7)
      assert.ok(events.every(({ targetId }) => targetId === id))
      assert.equal(await store.users.delete(id, change), 0)
      assert.deepEqual(await store.users.findByEmail(email), before)
    })

    test('of parallel changes of the email of one user each is made', async () => {
      const id = await insertTestUser(store, newEmail(), start)
      const set = () => store.users.set(id, { email: newEmail() }, change)
      const outcomes = await inParallel(8, set)
      assert.ok(outcomes.every(outcome => Object(outcome).isChanged))
    })

    test('to clear failures is an event with the most failures and the last block, also without a user', async () => {
      const minutesLater = (minutes: number) => new Date(start.getTime() + minutes * 60_000)
      for (const hasUser of [false, true]) {
        const email = newEmail()
        const targetId = hasUser ? await insertTestUser(store, email, start) : null
        const failAs = async (scopes: ThrottleScope[], times: number) => {
          for (let i = 0; i < times; i++) {
            await store.attempts.reserve(scopes, '', start)
            await store.attempts.fail(scopes, null, start)
          }
        }
        const failAndBlock = async (blockedAt: Date) => {
          const scopes = makeScopes(email)
          await failAs(scopes, 5)
          const { kind } = await store.attempts.reserve(scopes, email, blockedAt)
          assert.equal(kind, 'blocked')
        }
        const clear = () => store.throttle.clearOfEmail(email, change)
        await failAs(makeScopes(email), 1)
        assert.equal(await clear(), true)
        await failAndBlock(minutesLater(1))
        assert.equal(await clear(), true)
        for (const minutes of [1, 2]) await failAndBlock(minutesLater(minutes))
        assert.equal(await clear(), true)
        assert.equal(await clear(), false)
        const facts = [
          { failures: 10, blockedUntil: minutesLater(17).toISOString() },
          { failures: 5, blockedUntil: minutesLater(16).toISOString() },
          { failures: 1, blockedUntil: null },
        ]
        const events = (await listed(email)).filter(({ action }) => action !== 'user.added')
        assert.deepEqual(
          events.map(withoutId),
          facts.map(before => ({
            ...{ action: 'throttle.cleared', at: start, by: change.by, target: email, targetId },
            ...{ before, after: { failures: 0, blockedUntil: null } },
          })),
        )
      }
    })

    test('to end the lock of the throttle is an event, also without failures', async () => {
      const [email, other] = [newEmail(), newEmail()]
      for (const each of [email, other]) await insertTestUser(store, each, start)
      await database.rows(`update users set locked_until = '2030-01-02T00:00:00.000Z',
        locked_by = 'throttle' where email in ('${email}', '${other}')`)
      assert.equal(await store.throttle.clearOfEmail(email, change), true)
      assert.equal((await store.users.findByEmail(other))?.lockedBy, 'throttle')
      const [event] = await listed(email)
      const facts = [event?.action, event?.before, event?.after]
      assert.deepEqual(facts, ['throttle.cleared', null, null])
    })

    test('sessions and devices: the event names the session, and belongs to the history of its user', async () => {
      const email = newEmail()
      const id = await insertTestUser(store, email, start)
      await openFor(store, { id, passwordHash: 'a hash' }, makeScopes(), start)
      const [session] =
        (await store.sessions.listLive(id, { afterId: null, limit: 1 }, start)) ?? []
      assert.ok(session)
      assert.equal(await store.sessions.endByAdministrator(session.id, change), true)
      assert.equal(await store.sessions.endByAdministrator(session.id, change), false)
      assert.equal(await byEmail(store).endSessions(email, change), 0)
      assert.equal(await byEmail(store).endSessions(newEmail(), change), null)
      const expected = ['sessions.ended', 'session.ended', 'user.added']
      for (const target of [email, session.id]) {
        assert.deepEqual(await actionsOf(target), expected)
      }
    })

    test('of parallel changes each is recorded once', async () => {
      const email = newEmail()
      await insertTestUser(store, email, start)
      await inParallel(20, i =>
        i % 2 ? byEmail(store).activate(email, change) : byEmail(store).deactivate(email, change),
      )
      const states = (await listed(email)).reverse().map(({ after }) => after?.isActive ?? true)
      for (const [i, isActive] of states.entries()) {
        if (i > 0) assert.notEqual(isActive, states[i - 1])
      }
      assert.equal((await store.users.findByEmail(email))?.isActive, states.at(-1))
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
      const others = async () =>
        (await listed(longer)).filter(({ targetId }) => targetId === otherId)
      const before = await others()
      await store.users.delete(id, change)
      assert.deepEqual(await others(), before)
      assert.equal((await store.users.findById(otherId))?.email, email)
    })

    test('a user that is added again, even with the same id, has a history of its own', async () => {
      const email = newEmail()
      const id = await insertTestUser(store, email, start)
      await store.users.delete(id, change)
      assert.deepEqual(await listed(email), [])
      const unsaid = { role: null, isActive: null, createdAt: null, lockedUntil: null }
      const user = { id, isIdGiven: true, email, passwordHash: 'h', name: 'N', ...unsaid }
      const options = { mayUpdate: false, isDryRun: false }
      assert.deepEqual(await store.imports.run([user], options, change), ['added'])
      const own = await store.audit.listOfUser({ id, email }, { beforeId: null, limit: 10 })
      for (const events of [await listed(email), own]) {
        const shown = events.map(({ action, targetId }) => [action, targetId])
        assert.deepEqual(shown, [['user.imported', id]])
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
          store.users.set(id, { email: second, name: newEmail('race-') }, change),
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
      const left = (await listed(null)).filter(event => JSON.stringify(event).includes('race-'))
      // A block that is cleared when no user has the email is recorded with the email.
      for (const { action } of left) assert.equal(action, 'throttle.cleared')
    })

    test('what is recorded once a day has one event per actor and day, also of several instances at once', async () => {
      const another = await openPatientStore(database.config)
      const target = randomUUID()
      const newPerson = async () => {
        const name = newEmail()
        const id = await insertTestUser(store, name, start)
        return { kind: 'person', id, name, host: '::1' } as const
      }
      const [ann, bob] = [await newPerson(), await newPerson()]
      const token = (name: string) => ({ kind: 'token', name, host: '::1' }) as const
      // The same person under a new email, and a token with the name of a person.
      const actors = [ann, bob, token(target), token(ann.id), { ...ann, name: newEmail() }]
      const event = { action: 'users.read', target, targetId: null } as const
      const days = [start, new Date(start.getTime() - 1)]
      for (const at of days) {
        await inParallel(100, i => {
          const by = actors[i % actors.length] ?? ann
          return (i < 50 ? store : another).audit.recordDaily({ at, by }, event)
        })
      }
      await another.close()
      const whichOf = ({ by }: AuditEvent) => `${by.kind} ${by.id ?? by.name}`
      const expected = [ann, bob].map(({ id }) => `person ${id}`)
      expected.push(`token ${target}`, `token ${ann.id}`)
      const events = await listed(target)
      for (const at of days) {
        const ofDay = events.filter(event => +event.at === +at).map(whichOf)
        assert.deepEqual(ofDay.toSorted(), expected.toSorted())
      }
      assert.equal(events.length, 2 * expected.length)
    })

    test('a deleted person at the console stays in the audit under the pseudonym, as a person', async () => {
      const [email, target] = [newEmail(), newEmail()]
      const id = await insertTestUser(store, email, start)
      const targetId = await insertTestUser(store, target, start)
      const by = { kind: 'person', name: email, host: '::1', id } as const
      assert.ok(await store.users.deactivate(targetId, { at: start, by }))
      const event = { action: 'users.read', target, targetId } as const
      await store.audit.recordDaily({ at: start, by }, event)
      // In all more than the deletion changes at a time.
      await store.audit.record({ at: start, by }, Array(1_200).fill(event))
      const actors = async () =>
        (await listed(target)).flatMap(event => (event.action === 'user.added' ? [] : event.by))
      assert.deepEqual(await actors(), Array(1_202).fill(by))
      assert.equal(await store.users.delete(id, change), 0)
      const [deleted, ...others] = await actors()
      assert.match(deleted?.name ?? '', /^deleted-user-[\da-f]{16}$/)
      assert.deepEqual([deleted, ...others], Array(1_202).fill({ ...deleted, kind: 'person' }))
      assert.equal(deleted?.id, undefined)
      for (const table of ['audit_events', 'audit_actors']) {
        const rows = JSON.stringify(await database.rows(`select * from ${table}`))
        for (const secret of [id, email]) assert.ok(!rows.includes(secret))
      }
    })

    test('after AUDIT_DAYS the purge removes events, whatever the order of their times', async () => {
      const insertEvents = (count: number, at: Date, target: string) =>
        database.rows(`insert into audit_events (at, actor_kind, actor, host, action, target)
          with recursive n(i) as (select 1 union all select i + 1 from n where i < ${count})
          select ${engine === 'postgres' ? 'timestamptz ' : ''}'${at.toISOString()}', 'user', 'admin',
            'machine', 'user.changed', '${target}' from n`)
      const purge = async (auditDays?: number) =>
        (await purgeAll(store, moment, auditDays)).reduce((sum, it) => sum + it.auditEvents, 0)
      const moment = new Date(start.getTime() + 30 * DAY_MS + 1)
      const [old, young, early] = [newEmail('old'), newEmail('new'), newEmail('ahead')]
      await insertEvents(700, new Date(start.getTime() + 100 * DAY_MS), early)
      await insertEvents(1_300, start, old)
      await insertEvents(3, moment, young)
      await insertEvents(5, start, old)
      const [row] = await database.rows('select count(*) as n from audit_events')
      assert.equal(await purge(), 0)
      assert.equal(await purge(31), 0)
      assert.equal(await purge(30), Number(row?.n) - 703)
      assert.equal(await purge(30), 0)
      const left = [old, young, early].map(async target => (await listed(target)).length)
      assert.deepEqual(await Promise.all(left), [0, 3, 700])
    })
  })

  test(`pages have each event once, by their times and none before a given one, on ${engine}`, async () => {
    const { store, database } = await openTestStore(engine)
    const email = 'ann@example.com'
    const id = await insertTestUser(store, email, new Date('2030-01-01T00:00:00.000Z'))
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
    const idsOfPages = async (target: string | null, since: Date | null, limit: number) => {
      const ids: number[] = []
      for (let beforeId: number | null = null; ; ) {
        const page: ListedEvents = await store.audit.list(target, { since, beforeId, limit })
        assert.ok(page.events.length <= limit)
        ids.push(...page.events.map(({ id }) => id))
        if (page.next === null) return ids
        beforeId = page.next
      }
    }
    const rows = await database.rows('select id, at from audit_events order by at desc, id desc')
    for (const [day, limits, length] of [
      [null, [5_000], 24_076],
      ['2030-01-02T00:00:00.000Z', [7, 1_000], 65],
      ['2030-01-04T00:00:00.000Z', [10], 0],
    ] as const) {
      const since = day === null ? null : new Date(day)
      const expected = rows.filter(({ at }) => since === null || new Date(String(at)) >= since)
      assert.equal(expected.length, length)
      for (const target of [null, email]) {
        for (const limit of limits) {
          const ids = expected.map(row => Number(row.id))
          assert.deepEqual(await idsOfPages(target, since, limit), ids)
        }
      }
    }
  })
}
