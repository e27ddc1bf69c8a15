// What the store notes of a user's last login, the same on every engine.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { describe, test } from 'node:test'
import { ENGINES, openTestStore } from '../support/engines.ts'
import { inParallel } from '../support/own.ts'
import { byEmail, changeAt, insertTestUser, makeScopes, openFor } from './fixtures.ts'

for (const engine of ENGINES) {
  describe(`the last login on ${engine}`, async () => {
    const { store, database } = await openTestStore(engine)
    const start = new Date('2030-01-01T00:00:00.000Z')
    const later = (ms: number) => new Date(start.getTime() + ms)

    async function newUser() {
      const email = `${randomUUID()}@example.com`
      const id = await insertTestUser(store, email, start)
      return {
        id,
        email,
        /** The last login that the new session is told; undefined if none was opened. */
        async open(ip: string, now = start, passwordHash = 'a hash') {
          const client = { id: randomUUID(), ip }
          await openFor(store, { id, passwordHash }, makeScopes(), now, 1_000, client)
          const found = await store.sessions.findLive(client.id, now)
          return found.kind === 'live' ? found.lastLogin : undefined
        },
        fail: (now = start) => store.attempts.fail(makeScopes(), id, now),
      }
    }

    test('a login that fails because the user has changed is neither a failure nor a login', async () => {
      const user = await newUser()
      await user.open('::1')
      assert.equal(await user.open('::2', later(1), 'another hash'), undefined)
      const last = await user.open('::3', later(2))
      assert.deepEqual([last?.ip, last?.failuresSince], ['::1', 0])
    })

    test('no change by an administrator forgets the failures', async () => {
      const user = await newUser()
      await user.open('::1')
      await user.fail()
      await byEmail(store).unlock(user.email, changeAt(start))
      await store.throttle.clearOfEmail(user.email, changeAt(start))
      await byEmail(store).setPassword(user.email, 'a hash', changeAt(start))
      const email = `${randomUUID()}@example.com`
      await byEmail(store).set(user.email, { email }, changeAt(start))
      await store.maintenance.purge(later(365 * 24 * 3_600_000))
      assert.equal((await user.open('::2'))?.failuresSince, 1)
    })

    test('the purge removes its address and browser after 180 days, and keeps its time and the failures', async () => {
      const user = await newUser()
      const purgeAfter = (ms: number) => store.maintenance.purge(later(180 * 24 * 3_600_000 + ms))
      await user.open('::1')
      await user.fail()
      await purgeAfter(-1)
      const known = { at: start, failuresSince: 1, ip: '::1', userAgent: 'a browser' }
      assert.deepEqual(await store.sessions.findLastLogin(user.id), known)
      await purgeAfter(0)
      const rest = { ...known, ip: '', userAgent: '' }
      assert.deepEqual(await store.sessions.findLastLogin(user.id), rest)
    })

    test('of parallel logins each is told of another, and each failure is told once', async () => {
      const user = await newUser()
      await user.open('first')
      const ips = Array.from({ length: 30 }, (_, i) => `::${i}`)
      const [logins] = await Promise.all([
        Promise.all(ips.map(ip => user.open(ip))),
        inParallel(30, () => user.fail()),
      ])
      const told = [...logins, await user.open('last')]
      assert.deepEqual(told.map(login => login?.ip).sort(), ['first', ...ips].sort())
      const failures = told.reduce((sum, login) => sum + (login?.failuresSince ?? 0), 0)
      assert.equal(failures, 30)
    })

    test('the counters do not overflow', async () => {
      const user = await newUser()
      await user.open('::1')
      await database.rows(`update users set failures_since_login = 999999999,
        failed_login_attempts = 999999999 where id = '${user.id}'`)
      assert.equal(await user.fail(), 0)
      assert.equal((await user.open('::2'))?.failuresSince, 0)
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
  })
}
