import assert from 'node:assert/strict'
import { test } from 'node:test'
import { clientScopes, deviceScopes, emailScope, limitsOf, throttleScopes } from './scopes.ts'

const BUDGETS = { pair: 5, email: 20, client: 50, network: 500 }
const EMAIL = 'ann@example.com'

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

test('an attempt counts for its email and its client; from a known device, only for the device', () => {
  const client = { group: '2001:db8::/64', network: '2001:db8::/48' }
  const namesOf = (scopes: { name: string }[]) => scopes.map(({ name }) => name)
  const scopes = throttleScopes(EMAIL, client, BUDGETS)
  assert.deepEqual(namesOf(scopes), ['pair', 'email', 'client', 'network'])
  assert.deepEqual([emailScope(EMAIL, BUDGETS)], scopes.slice(1, 2))
  assert.deepEqual(clientScopes(client, BUDGETS), scopes.slice(2))
  const ofIPv4 = throttleScopes(EMAIL, { group: '192.0.2.1', network: null }, BUDGETS)
  assert.deepEqual(namesOf(ofIPv4), ['pair', 'email', 'client'])
  const ofDevice = deviceScopes(EMAIL, { id: 'an id' })
  assert.deepEqual(namesOf(ofDevice), ['device'])
  const keys = [...scopes, ...ofIPv4, ...ofDevice].map(({ key }) => key)
  // Both clients share the scope of the email, and nothing else.
  assert.equal(new Set(keys).size, keys.length - 1)
})
