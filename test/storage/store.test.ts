// The behaviour of users, sessions, the purge and migrations, the same on every engine.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { describe, test } from 'node:test'
import type { ThrottleScope } from '../../src/domain/attempt.ts'
import { createTestDatabase, ENGINES, openPatientStore, openTestStore } from '../support/engines.ts'
import { inParallel } from '../support/own.ts'
import {
  byEmail,
  changeAt,
  digest,
  insertTestUser,
  makeScopes,
  makeSuccessor,
  openFor,
  UNKNOWN_EMAIL,
} from './fixtures.ts'

const MINUTE_MS = 60_000

for (const engine of ENGINES) {
  describe(`store on ${engine}`, async () => {
    const { store, database } = await openTestStore(engine)

    const start = new Date('2030-01-01T00:00:00.000Z')
    const later = (ms: number) => new Date(start.getTime() + ms)

    const insertUser = (email: string) => insertTestUser(store, email, start)
    const reserve = (scopes: ThrottleScope[]) =>
      store.attempts.reserve(scopes, UNKNOWN_EMAIL, start)

    test('a user is read as it was stored, with default values', async () => {
      const id = await insertUser('stored@example.com')
      assert.deepEqual(await store.users.findByEmail('stored@example.com'), {
        id,
        email: 'stored@example.com',
        passwordHash: 'a hash',
        name: 'Name',
        role: 'user',
        isActive: true,
        failedLoginAttempts: 0,
        lockedUntil: null,
        lockedBy: null,
        temporaryUntil: null,
        createdAt: start,
        updatedAt: start,
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

    test('of parallel insertions of the same email, one succeeds', async () => {
      const user = { email: 'race@example.com', passwordHash: 'h', name: 'n', role: 'user' }
      const results = await inParallel(20, () =>
        store.users.insert({ id: randomUUID(), ...user }, changeAt(start)),
      )
      assert.equal(results.filter(Boolean).length, 1)
    })

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

    test('a session opens only if the user is active, not locked and has the verified hash', async () => {
      const id = await insertUser('verified@example.com')
      const scopes = makeScopes()
      const email = 'verified@example.com'
      const open = async (passwordHash = 'a hash') => {
        await reserve(scopes)
        return openFor(store, { id, passwordHash }, scopes, start)
      }
      assert.equal(await open(), true)
      assert.equal(await open('another hash'), false)
      await byEmail(store).lock(email, later(MINUTE_MS), changeAt(start))
      assert.equal(await open(), false)
      await byEmail(store).unlock(email, changeAt(start))
      await byEmail(store).deactivate(email, changeAt(start))
      assert.equal(await open(), false)
      await byEmail(store).activate(email, changeAt(start))
      assert.equal(await open(), true)
      await byEmail(store).delete(email, changeAt())
      assert.equal(await open(), false)
    })

    test('a code is not redeemed for a user that is no longer active', async () => {
      const email = 'redeems@example.com'
      const userId = await insertUser(email)
      const session = { id: randomUUID(), ip: '::1' }
      await openFor(store, { id: userId, passwordHash: 'a hash' }, makeScopes(), start, 10, session)
      const expiresAt = later(MINUTE_MS)
      const code = { callback: 'https://app.example.net/', challenge: 'x'.repeat(43), expiresAt }
      await store.codes.insert(digest(email), session.id, code)
      await database.rows(`update users set is_active = false where id = '${userId}'`)
      const refreshToken = makeSuccessor(start, expiresAt)
      const opened = { id: randomUUID(), expiresAt, userAgent: '', ip: '' }
      const redemption = { userId, session: opened, refreshToken, maxSessions: 10 }
      assert.equal(await store.codes.redeem(digest(email), redemption, start), null)
      assert.equal((await store.sessions.findLive(opened.id, start)).kind, 'invalid')
    })

    test('only the verified hash is upgraded. A session opens for it afterwards, but not after a new password', async () => {
      const id = await insertUser('upgrade@example.com')
      const open = () => openFor(store, { id, passwordHash: 'a hash' }, makeScopes(), start)
      const readHash = async () => (await store.users.findById(id))?.passwordHash
      await store.users.upgradePasswordHash(id, 'not this one', 'upgraded', start)
      assert.equal(await readHash(), 'a hash')
      await store.users.upgradePasswordHash(id, 'a hash', 'upgraded', start)
      assert.equal(await readHash(), 'upgraded')
      assert.equal(await open(), true)
      await byEmail(store).setPassword('upgrade@example.com', 'another', changeAt(start))
      assert.equal(await open(), false)
    })

    test('parallel purges remove each row once', async () => {
      await insertUser('crowd@example.com')
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
