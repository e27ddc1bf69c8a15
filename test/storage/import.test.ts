// How users from a file are stored, the same on every engine.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { describe, test } from 'node:test'
import type { ImportedUser, ImportOptions } from '../../src/domain/import.ts'
import type { Store } from '../../src/domain/store.ts'
import { ENGINES, openPatientStore, openTestStore } from '../support/engines.ts'
import { inParallel } from '../support/own.ts'
import { byEmail, changeAt, eventsOf, makeScopes, openFor } from './fixtures.ts'

/** What a new user has of its second step. */
const NO_STEPS = { factorsVersion: 0, failedSecondSteps: 0, codeOffsetSeconds: null }
const ADD = { mayUpdate: false, isDryRun: false }
const UPDATE = { mayUpdate: true, isDryRun: false }
const TRIAL = { mayUpdate: true, isDryRun: true }

for (const engine of ENGINES) {
  describe(`import on ${engine}`, async () => {
    const { store, database } = await openTestStore(engine)
    const start = new Date('2030-01-01T00:00:00.000Z')
    const later = new Date('2031-01-01T00:00:00.000Z')
    const change = changeAt(start)

    const imported = (more: Partial<ImportedUser> = {}): ImportedUser => ({
      ...{ id: randomUUID(), isIdGiven: false, email: `${randomUUID()}@example.com`, name: 'Name' },
      ...{ role: null, passwordHash: 'a hash', isActive: null, createdAt: null },
      ...{ lockedUntil: undefined, ...more },
    })
    const actionsOf = async (email: string) =>
      (await eventsOf(store, email)).map(({ action }) => action).toReversed()
    const find = (email: string) => store.users.findByEmail(email)
    /** The outcome of one user. */
    const run = async (user: ImportedUser, options = UPDATE, by = change) => {
      const [outcome, ...others] = await store.imports.run([user], options, by)
      assert.deepEqual(others, [])
      return outcome
    }

    test('a new user has the values of the file, or the default values', async () => {
      const bare = imported()
      const full = imported({
        isIdGiven: true,
        role: 'admin',
        isActive: false,
        createdAt: new Date('2001-02-03T04:05:06.789Z'),
        lockedUntil: later,
      })
      assert.deepEqual(await store.imports.run([bare, full], ADD, change), ['added', 'added'])
      const { id, email, passwordHash, name } = bare
      assert.deepEqual(await find(email), {
        ...{ id, email, passwordHash, name, role: 'user', isActive: true, failedLoginAttempts: 0 },
        ...{ lockedUntil: null, lockedBy: null, temporaryUntil: null },
        ...{ createdAt: start, updatedAt: start },
        ...NO_STEPS,
      })
      const { isIdGiven: _, ...stored } = full
      assert.deepEqual(await find(full.email), {
        ...stored,
        ...{ failedLoginAttempts: 0, lockedBy: 'administrator', updatedAt: start },
        temporaryUntil: null,
        ...NO_STEPS,
      })
      const [event] = await eventsOf(store, full.email)
      assert.deepEqual([event?.action, event?.targetId], ['user.imported', full.id])
      const after = { name: 'Name', role: 'admin', isActive: false }
      assert.deepEqual(event?.after, { ...after, lockedUntil: later.toISOString() })
    })

    test('an existing user is changed only if it may be and something differs, and keeps what the file does not say', async () => {
      const user = imported({ role: 'old', lockedUntil: later, isActive: false })
      await run(user, ADD)
      const before = await find(user.email)
      const changed = imported({ email: user.email, name: 'Other' })
      for (const [again, options] of [
        [user, ADD],
        [user, UPDATE],
        [changed, ADD],
      ] as const) {
        const other = { ...again, id: randomUUID() }
        assert.equal(await run(other, options, changeAt(later)), 'unchanged')
      }
      assert.deepEqual(await find(user.email), before)
      assert.equal(await run(changed), 'updated')
      assert.deepEqual(await find(user.email), { ...before, name: 'Other' })
      assert.deepEqual(await actionsOf(user.email), ['user.imported', 'user.changed'])
      const unlocked = { isActive: true, lockedUntil: null, role: 'new' }
      assert.equal(await run({ ...changed, ...unlocked }), 'updated')
      assert.partialDeepStrictEqual(await find(user.email), { ...unlocked, lockedBy: null })
    })

    test('a changed hash, a lock and a deactivation end all sessions; only a changed hash removes the devices', async () => {
      const user = imported()
      await run(user, ADD)
      await database.rows(`insert into devices (id, user_id, token, last_used_at, expires_at, user_agent)
        values ('${randomUUID()}', '${user.id}', '${'d'.repeat(64)}', '2030-01-01T00:00:00.000Z',
          '2031-01-01T00:00:00.000Z', '')`)
      const cases: [Partial<ImportedUser>, sessions: number, devices: number][] = [
        [{ name: 'Other' }, 1, 1],
        [{ lockedUntil: later }, 0, 1],
        [{ lockedUntil: null, isActive: false }, 0, 1],
        [{ passwordHash: 'another hash' }, 0, 0],
      ]
      for (const [more, ...left] of cases) {
        await byEmail(store).activate(user.email, change)
        await byEmail(store).unlock(user.email, change)
        const { passwordHash = '' } = (await find(user.email)) ?? {}
        assert.equal(await openFor(store, { id: user.id, passwordHash }, makeScopes(), start), true)
        assert.equal(await run({ ...user, ...more }), 'updated')
        const sessions = await store.sessions.countLive(user.id, start)
        const devices = await store.devices.list(user.id, start)
        assert.deepEqual([sessions, devices.length], left, JSON.stringify(more))
        await byEmail(store).endSessions(user.email, change)
      }
      const actions = await actionsOf(user.email)
      assert.equal(actions.filter(action => action === 'password.set').length, 1)
    })

    test('a lock by the throttle stays, and a hash that a login has replaced by one of another cost counts as the same', async () => {
      const user = imported({ lockedUntil: null })
      await run(user, ADD)
      await store.users.upgradePasswordHash(user.id, user.passwordHash, 'upgraded', start)
      await database.rows(`update users set locked_until = '2030-06-01T00:00:00.000Z',
        locked_by = 'throttle' where id = '${user.id}'`)
      assert.equal(await run(user), 'unchanged')
      assert.equal(await run({ ...user, name: 'Other' }), 'updated')
      const kept = { name: 'Other', passwordHash: 'upgraded', lockedBy: 'throttle' }
      assert.partialDeepStrictEqual(await find(user.email), kept)
    })

    test('an id of another user, or another id than the stored one, is not accepted', async () => {
      const [first, second] = [imported(), imported()]
      await store.imports.run([first, second], ADD, change)
      const taken = imported({ id: first.id, isIdGiven: true })
      const other = imported({ email: first.email, isIdGiven: true, name: 'Other' })
      const swapped = { ...second, id: first.id, isIdGiven: true }
      for (const options of [ADD, UPDATE, TRIAL]) {
        const outcomes = await store.imports.run([taken, other, swapped], options, change)
        assert.deepEqual(outcomes, Array(3).fill('other-id'))
      }
      assert.equal(await run({ ...first, isIdGiven: true }, ADD), 'unchanged')
      assert.equal(await find(taken.email), null)
    })

    test('of parallel imports each user is added by one, also while users are deleted', async () => {
      const emails = Array.from({ length: 300 }, (_, i) => `parallel${i}@example.com`).sort()
      const others = await inParallel(3, () => openPatientStore(database.config))
      const runIn = ({ imports }: Store, options: ImportOptions) =>
        imports.run(
          emails.map(email => imported({ email })),
          options,
          change,
        )
      const runs = await Promise.all(
        [store, ...others].flatMap(each => [UPDATE, ADD].map(options => runIn(each, options))),
      )
      const countOf = (kind: string) => runs.flat().filter(outcome => outcome === kind).length
      assert.equal(countOf('added'), emails.length)
      assert.equal(countOf('unchanged'), 7 * emails.length)
      const deleteSome = async () => {
        for (const email of emails.slice(0, 50)) await byEmail(store).delete(email, change)
      }
      await Promise.all([deleteSome(), ...others.map(each => runIn(each, UPDATE))])
      await runIn(store, ADD)
      const [count] = await database.rows(
        `select count(*) as n from users where email like 'parallel%'`,
      )
      assert.equal(Number(count?.n), emails.length)
      await Promise.all(others.map(each => each.close()))
    })

    test('texts of every kind are stored as they are', async () => {
      const names = ['"quotes" \\', "it's", 'Zoë 👩‍👩‍👧 日本', '{"a":1}', '\u2028', '0', 'null']
      const users = names.map(name => imported({ name, role: name }))
      await store.imports.run(users, ADD, change)
      for (const [index, { email }] of users.entries()) {
        const user = await find(email)
        assert.deepEqual([user?.name, user?.role], [names[index], names[index]])
      }
    })

    test('the end of a temporary password comes with its hash, and stays with it', async () => {
      const user = imported({ temporaryUntil: later })
      for (const [more, outcome, stored] of [
        [{}, 'added', later],
        [{ temporaryUntil: null }, 'unchanged', later],
        [{ passwordHash: 'another hash', temporaryUntil: null }, 'updated', null],
        [{ passwordHash: 'a third hash' }, 'updated', later],
      ] as const) {
        assert.equal(await run({ ...user, ...more }), outcome)
        assert.deepEqual((await find(user.email))?.temporaryUntil, stored)
      }
    })
  })
}
