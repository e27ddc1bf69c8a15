import assert from 'node:assert/strict'
import { after, before, beforeEach, describe, test } from 'node:test'
import { createTestDatabase, type TestDatabase } from '../../test/engines.ts'
import { digestOf } from '../digest.ts'
import { openStore } from '../storage/open-store.ts'
import type { Store } from '../storage/store.ts'
import { createThrottle, FORGOTTEN_MS, type Throttle, throttleScopes } from './throttle.ts'

const MINUTE_MS = 60_000
const BUDGETS = { pair: 2, email: 20, client: 3 }

describe('a refusal', () => {
  let database: TestDatabase
  let store: Store
  before(async () => {
    database = await createTestDatabase('sqlite')
    store = await openStore(database.config)
    await store.migrate()
  })
  after(async () => {
    await store.close()
    await database.drop()
  })

  let now = new Date()
  let throttle: Throttle
  let clients = 0
  let client: string
  beforeEach(() => {
    now = new Date()
    throttle = createThrottle(store, () => now)
    client = `10.0.0.${++clients}`
  })

  const scopesOf = (email: string, from = client) => throttleScopes(email, from, BUDGETS)
  async function failAs(email: string, times: number): Promise<void> {
    for (let i = 0; i < times; i++) {
      assert.equal((await throttle.reserve(scopesOf(email), email)).kind, 'admitted')
      await store.settleFailure(scopesOf(email), null, now)
    }
  }

  test('is recalled for whoever it concerns, and for nobody else', async () => {
    await failAs('ann@example.com', 2)
    assert.equal(throttle.recallRefusal(scopesOf('ann@example.com')), null)
    const refused = await throttle.reserve(scopesOf('ann@example.com'), 'ann@example.com')
    assert.equal(refused.kind, 'refused')
    assert.deepEqual(throttle.recallRefusal(scopesOf('ann@example.com')), refused)
    assert.equal(throttle.recallRefusal(scopesOf('ann@example.com', '10.9.9.9')), null)
    assert.equal(throttle.recallRefusal(scopesOf('ben@example.com')), null)
  })

  test('of a client is recalled whatever e-mail it comes with', async () => {
    await failAs('ann@example.com', 1)
    await failAs('ben@example.com', 2)
    await throttle.reserve(scopesOf('cat@example.com'), 'cat@example.com')
    assert.equal(throttle.recallRefusal(scopesOf('dan@example.com'))?.scope, 'client')
  })

  test('is not recalled beyond the end of its wait', async () => {
    await failAs('ann@example.com', 2)
    await throttle.reserve(scopesOf('ann@example.com'), 'ann@example.com')
    now = new Date(now.getTime() + 15 * MINUTE_MS)
    assert.equal(throttle.recallRefusal(scopesOf('ann@example.com')), null)
  })

  test('is asked for again a moment later', async () => {
    await failAs('ann@example.com', 2)
    await throttle.reserve(scopesOf('ann@example.com'), 'ann@example.com')
    const over = performance.now() + FORGOTTEN_MS
    while (performance.now() < over) await new Promise(setImmediate)
    assert.equal(throttle.recallRefusal(scopesOf('ann@example.com')), null)
    assert.ok(throttle.recallRefusal(scopesOf('ann@example.com')), 'one asks, the others do not')
    await store.unlockUser('ann@example.com', digestOf('ann@example.com'), now)
    assert.equal((await throttle.reserve(scopesOf('ann@example.com'), 'x')).kind, 'admitted')
    assert.equal(throttle.recallRefusal(scopesOf('ann@example.com')), null)
  })
})
