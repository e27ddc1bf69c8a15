import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { ENGINES, openTestStore } from '../../test/engines.ts'
import { createGeneration, createKeys, importKeys } from '../session/keys.ts'
import { countKinds } from '../storage/contract-fixtures.ts'
import { createHashQueue } from './hash-queue.ts'
import { login } from './login.ts'
import { createPasswords } from './passwords.ts'
import { createThrottle } from './throttle.ts'

const COST = 4
const clock = () => new Date()
const keys = createKeys(await importKeys({ keys: await createGeneration(new Date(), 0) }))
const passwords = await createPasswords(COST)

for (const engine of ENGINES) {
  describe(`attempts at the same moment, on ${engine}`, async () => {
    const { store } = await openTestStore(engine)

    test('of 100 guesses five are verified, and all others hear so', async () => {
      const deps = {
        store,
        throttle: createThrottle(store, clock),
        passwords,
        hashQueue: createHashQueue(2, passwords.estimateMs),
        budgets: { pair: 5, email: 20, client: 50 },
        maxSessionsPerUser: 100,
        keys,
        tokens: { issuer: 'https://login.example.com', audience: 'api' },
        clock,
      }
      const attempt = {
        email: 'kate@example.com',
        password: 'wrong',
        client: { ip: '127.0.0.1', group: '127.0.0.1', userAgent: '', isBrowser: false },
        deviceToken: null,
        sessionCookie: null,
      }
      const attempts = Array.from({ length: 100 }, () => login(deps, attempt))
      assert.deepEqual(countKinds(await Promise.all(attempts)), { rejected: 5, throttled: 95 })
    })
  })
}
