import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createRefreshLimit } from './refresh-limit.ts'

const LIMITED = { kind: 'limited', sessionId: 'session' }

/** A session that was refreshed 60 times at 0 ms. */
function openLimited() {
  let nowMs = 0
  const limit = createRefreshLimit(() => new Date(nowMs))
  for (let i = 1; i <= 60; i++) assert.equal(limit.count('session', `token ${i}`), null)
  return {
    at(ms: number) {
      nowMs = ms
      return limit
    },
  }
}

test('only the token after the last refresh that is allowed waits, until the minute is over', () => {
  const { at } = openLimited()
  assert.equal(at(0).check('token 59'), null)
  assert.deepEqual(at(0).check('token 60'), { ...LIMITED, retryAfterSeconds: 60 })
  assert.deepEqual(at(59_999).check('token 60'), { ...LIMITED, retryAfterSeconds: 1 })
  assert.equal(at(60_000).check('token 60'), null)
})

test('a token that waited no longer waits after another refresh of its session has begun a minute', () => {
  const { at } = openLimited()
  assert.equal(at(60_000).count('session'), null)
  assert.equal(at(60_000).check('token 60'), null)
})

test('a session that is refreshed one time too many waits, and others do not', () => {
  const { at } = openLimited()
  assert.deepEqual(at(30_000).count('session'), { ...LIMITED, retryAfterSeconds: 30 })
  assert.equal(at(30_000).count('another session'), null)
  // The window of the other session is still there, behind that of the first one.
  assert.equal(at(60_000).count('session'), null)
})
