import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createRefreshLimit } from './refresh-limit.ts'

test('a session that is refreshed one time too many waits until its minute is over, and others do not', () => {
  let nowMs = 0
  const limit = createRefreshLimit(() => new Date(nowMs))
  for (let i = 1; i <= 60; i++) assert.equal(limit.count('session'), null)
  nowMs = 30_000
  const limited = { kind: 'limited', sessionId: 'session', retryAfterSeconds: 30 }
  assert.deepEqual(limit.count('session'), limited)
  assert.equal(limit.count('another session'), null)
  nowMs = 60_000
  // The window of the other session is still there, behind that of the first one.
  assert.equal(limit.count('session'), null)
})
