import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { createTestDatabase, ENGINES, type TestDatabase } from '../../test/engines.ts'
import { createGeneration, createKeys, importKeys } from '../session/keys.ts'
import { openStore } from '../storage/open-store.ts'
import type { Store } from '../storage/store.ts'
import { createHashQueue } from './hash-queue.ts'
import { type LoginOutcome, login } from './login.ts'
import { createPasswords } from './passwords.ts'
import { createThrottle } from './throttle.ts'

const COST = 4
const clock = () => new Date()
const keys = createKeys(await importKeys({ keys: await createGeneration(new Date(), 0) }))
const passwords = await createPasswords(COST)

function countKinds(outcomes: LoginOutcome[]): Record<string, number> {
  const counts: Record<string, number> = {}
  for (const { kind } of outcomes) counts[kind] = (counts[kind] ?? 0) + 1
  return counts
}

for (const engine of ENGINES) {
  describe(`attempts at the same moment, on ${engine}`, () => {
    let database: TestDatabase
    let store: Store
    before(async () => {
      database = await createTestDatabase(engine)
      store = await openStore(database.config)
      await store.migrate()
    })
    after(async () => {
      await store.close()
      await database.drop()
    })

    test('of 100 guesses five are verified, and all others hear so', async () => {
      const deps = {
        store,
        throttle: createThrottle(store, clock),
        passwords,
        hashQueue: createHashQueue(2, passwords.estimateMs),
        budgets: { pair: 5, email: 20, client: 50 },
        keys,
        tokens: { issuer: 'https://login.example.com', audience: 'api' },
        clock,
      }
      const attempt = {
        email: 'kate@example.com',
        password: 'wrong',
        client: { ip: '127.0.0.1', group: '127.0.0.1', userAgent: '', isBrowser: false },
        deviceToken: null,
      }
      const attempts = Array.from({ length: 100 }, () => login(deps, attempt))
      assert.deepEqual(countKinds(await Promise.all(attempts)), { rejected: 5, throttled: 95 })
    })
  })
}
