// Operations that arrive together share one commit, and have the same results as one after the other.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { StatementSync } from 'node:sqlite'
import { mock, test } from 'node:test'
import fc from 'fast-check'
import {
  changeAt,
  digest,
  insertTestUser,
  makeScopes,
  NOTHING_DISPLACED,
} from '../../../test/storage/fixtures.ts'
import { openTestStore } from '../../../test/support/engines.ts'
import { inParallel } from '../../../test/support/own.ts'
import type { Store } from '../../domain/store.ts'

const NOW = new Date()
const EMAIL = 'kate@example.com'
const NEW_SESSION = {
  ...{ expiresAt: NOW, cookieDigest: null, userAgent: '', ip: '::1' },
  amr: ['pwd'],
}
const NEW_TOKEN = { keyId: '', issuedAt: NOW, expiresAt: NOW }
/** No email is blocked: that takes a second transaction, which comes after those of the others. */
const BUDGETS = { pair: 2, email: 100, client: 4 }
const ROWS = [
  'select * from login_throttle order by key',
  'select * from sessions order by id',
  'select * from refresh_tokens order by id',
  'select * from users order by id',
  'select id, failed_login_attempts from unknown_user where failed_login_attempts > 0 order by id',
]

/** The first 35 characters of all ids, and the user that logs in. */
type Run = { prefix: string; userId: string }
type Operation = (store: Store, run: Run) => Promise<unknown>

/** Few emails, clients, sessions and tokens, so that operations meet the rows of others. */
const few = fc.integer({ min: 0, max: 4 })
const operation = fc.record({ email: few, client: few, session: few, token: few, kind: few }).map(
  ({ email, client, session, token, kind }): Operation =>
    (store, { prefix, userId }) => {
      const scopes = makeScopes(`${prefix}${email}`, `${prefix}${client}`, BUDGETS)
      if (kind === 0) return store.attempts.reserve(scopes, EMAIL, NOW)
      if (kind === 1) return store.attempts.release(scopes)
      if (kind === 2) return store.attempts.fail(scopes, email < 2 ? userId : null, NOW)
      // Fails after its first writes if the session or the token exists.
      const opening = {
        user: { id: userId, passwordHash: 'a hash', factorsVersion: 0 },
        session: { ...NEW_SESSION, id: `${prefix}${session}` },
        refreshToken: { ...NEW_TOKEN, id: `${prefix}${token}`, digest: digest(prefix + token) },
        device: null,
        displaced: NOTHING_DISPLACED,
      }
      return store.attempts.succeed(opening, scopes, NOW)
    },
)

test('a group has the results of its operations one by one, without those that fail', async () => {
  const [grouped, single] = [await openTestStore('sqlite'), await openTestStore('sqlite')]
  const userId = await insertTestUser(grouped.store, EMAIL, NOW)
  const user = await grouped.store.users.findByEmail(EMAIL)
  assert.ok(user && (await single.store.users.insert(user, changeAt(NOW))))
  const counts = { fulfilled: 0, rejected: 0 }
  await fc.assert(
    fc.asyncProperty(fc.array(operation, { minLength: 10, maxLength: 30 }), async operations => {
      const run = { prefix: randomUUID().slice(0, 35), userId }
      const results = await Promise.allSettled(operations.map(each => each(grouped.store, run)))
      for (const [index, result] of results.entries()) {
        counts[result.status]++
        if (result.status === 'rejected') assert.match(result.reason.message, /^UNIQUE constraint/)
        else assert.deepEqual(await operations[index]?.(single.store, run), result.value)
      }
      for (const rows of ROWS) {
        assert.deepEqual(await grouped.database.rows(rows), await single.database.rows(rows))
      }
    }),
    // The tables keep what a failure leaves, so that a shorter list of operations would prove nothing.
    { numRuns: 50, endOnFailure: true },
  )
  for (const [status, count] of Object.entries(counts)) assert.ok(count > 50, `${count} ${status}`)
})

test('operations that arrive together are committed once', async () => {
  const { store } = await openTestStore('sqlite')
  const ran = mock.method(StatementSync.prototype, 'all')
  await inParallel(50, () => store.attempts.reserve(makeScopes(), EMAIL, NOW))
  ran.mock.restore()
  const commits = ran.mock.calls.filter(call => Object(call.this).sourceSQL === 'commit')
  assert.equal(commits.length, 1)
})

test('a store that has been closed refuses operations', async () => {
  const { store } = await openTestStore('sqlite')
  await store.close()
  await assert.rejects(store.attempts.release(makeScopes()))
})

test('a transaction of a group or of one operation that begins and reports an error is not left open', async () => {
  const { store } = await openTestStore('sqlite')
  for (const use of [
    () => store.attempts.reserve(makeScopes(), EMAIL, NOW),
    () => insertTestUser(store, `${randomUUID()}@example.com`, NOW),
  ]) {
    const mocks = (['all', 'run'] as const).map(name => {
      const method: (...values: never[]) => unknown = StatementSync.prototype[name]
      const failing = function (this: StatementSync, ...values: never[]) {
        const result = method.apply(this, values)
        if (this.sourceSQL === 'begin immediate') throw new Error('disk I/O error')
        return result
      }
      return mock.method(StatementSync.prototype, name, failing)
    })
    await assert.rejects(use(), /disk I\/O error/)
    for (const { mock } of mocks) mock.restore()
    await use()
  }
})
