import assert from 'node:assert/strict'
import { test } from 'node:test'
import { limitsOf } from './scopes.ts'

const BUDGETS = { pair: 5, email: 20, client: 50, network: 500 }

test('an email has a limit for a day too, which is never below the one for 15 minutes', () => {
  assert.deepEqual(limitsOf(BUDGETS), {
    pair: { maxFailures: 5, maxDailyFailures: null },
    email: { maxFailures: 20, maxDailyFailures: 100 },
    client: { maxFailures: 50, maxDailyFailures: null },
    network: { maxFailures: 500, maxDailyFailures: null },
    device: { maxFailures: 5, maxDailyFailures: null },
  })
  assert.equal(limitsOf({ ...BUDGETS, email: 101 }).email.maxDailyFailures, 101)
})
