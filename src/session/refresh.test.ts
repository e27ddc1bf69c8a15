import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { test } from 'node:test'
import { insertTestUser, makeScopes, NOTHING_DISPLACED } from '../../test/storage/fixtures.ts'
import { openTestStore } from '../../test/support/engines.ts'
import { makeKeys } from '../../test/support/keys.ts'
import type { RefreshTokenStore } from '../domain/refresh-token.ts'
import type { Store } from '../domain/store.ts'
import { refresh, renewAccess } from './refresh.ts'
import { createRefreshLimit } from './refresh-limit.ts'
import { issueRefreshToken } from './refresh-token.ts'

const now = new Date()
const keys = await makeKeys(now)
/** Of the time that all tries have, and what is left of it. */
const FIRST_TRY_MS = 1_500
const LEFT_MS = 300
const caller = { requestId: null, group: '192.0.2.1', userAgent: '' }
const tokens = { issuer: 'https://login.example.com', audience: 'api', accessSeconds: 3600 }

async function openRefreshing() {
  const { store } = await openTestStore('sqlite')
  const time = { now }
  const clock = () => time.now
  const limit = createRefreshLimit(clock)
  const deps = { store, keys, tokens, clock, limit }
  const opened = await openSession(store)
  const at = (ms: number, token = opened.token, by = caller) => {
    time.now = new Date(now.getTime() + ms)
    return refresh(deps, token, by)
  }
  const findSession = () => store.sessions.findLive(opened.sessionId, now)
  return { ...opened, deps, at, findSession }
}

test('a session is refreshed and renewed at most 60 times in a minute', async () => {
  const { at, deps, token, sessionId, findSession } = await openRefreshing()
  const limited = { kind: 'limited', sessionId, retryAfterSeconds: 60 }
  assert.deepEqual(await at(0, 'no token'), { kind: 'invalid', reason: 'malformed' })
  let replaced = ''
  let last = token
  for (let i = 0; i < 60; i++) {
    const outcome = await at(0, last)
    assert.ok(outcome.kind === 'refreshed' && outcome.expiresInSeconds === 3600)
    replaced = last
    last = outcome.refreshToken
  }
  assert.deepEqual(await at(0, last), limited)
  assert.deepEqual(await at(0, replaced), limited)
  assert.deepEqual(await at(30_500, last), { ...limited, retryAfterSeconds: 30 })
  const live = await findSession()
  assert.ok(live.kind === 'live')
  assert.deepEqual(renewAccess(deps, live), { ...limited, retryAfterSeconds: 30 })
  assert.equal((await at(60_000, last)).kind, 'refreshed')
  const renewed = renewAccess(deps, live)
  assert.ok(renewed.kind === 'renewed' && renewed.expiresInSeconds === 3600)
})

test('a repetition counts towards the limit too', async () => {
  const { at, sessionId } = await openRefreshing()
  for (let i = 0; i < 60; i++) assert.equal((await at(0)).kind, 'refreshed')
  assert.deepEqual(await at(0), { kind: 'limited', sessionId, retryAfterSeconds: 60 })
  assert.deepEqual(await at(59_999), { kind: 'limited', sessionId, retryAfterSeconds: 1 })
})

test('a token that is not replaced although it is unused is used again, and never taken for reuse', async () => {
  const { store } = await openTestStore('sqlite')
  for (const [failures, kind] of [
    [1, 'refreshed'],
    [4, 'refreshed'],
    [5, 'fault'],
  ] as const) {
    const { sessionId, token } = await openSession(store)
    let left = failures
    const { find, use } = store.refreshTokens
    const findOnly: typeof use = (id, digest, successor, now) =>
      left-- > 0 ? find(id, digest, now) : use(id, digest, successor, now)
    const failing = { ...store, refreshTokens: { find, use: findOnly } }
    const limit = createRefreshLimit(() => now)
    const deps = { store: failing, keys, tokens, clock: () => now, limit }
    const outcome = await refresh(deps, token, caller).catch(() => ({ kind: 'fault' }))
    assert.equal(outcome.kind, kind)
    assert.equal((await store.sessions.findLive(sessionId, now)).kind, 'live')
  }
})

test('a second try gets only the time that the first one has left', async t => {
  const { store } = await openTestStore('sqlite')
  const { token } = await openSession(store)
  // Only the first try moves this clock.
  let nowMs = 0
  t.mock.method(performance, 'now', () => nowMs)
  const timers = t.mock.method(globalThis, 'setTimeout')
  let tries = 0
  const { find } = store.refreshTokens
  const useSlowly: RefreshTokenStore['use'] = (id, digest, _successor, now) => {
    if (++tries > 1) return new Promise(() => {})
    nowMs += FIRST_TRY_MS
    return find(id, digest, now)
  }
  const slow = { ...store, refreshTokens: { find, use: useSlowly } }
  const limit = createRefreshLimit(() => now)
  const deps = { store: slow, keys, tokens, clock: () => now, limit }
  await assert.rejects(refresh(deps, token, caller), /timeout: the database is slow/)
  assert.equal(tries, 2)
  const limits = timers.mock.calls.map(({ arguments: [, ms] }) => ms)
  assert.ok(limits.includes(LEFT_MS), limits.join())
})

async function openSession(store: Store) {
  const email = `${randomUUID()}@example.com`
  const userId = await insertTestUser(store, email, now)
  const sessionId = randomUUID()
  const expiresAt = new Date(now.getTime() + 30 * 24 * 3_600_000)
  const { refreshKey } = keys.signingAt(now)
  const issued = issueRefreshToken(refreshKey, tokens.issuer, userId, expiresAt, now)
  const opening = {
    user: { id: userId, passwordHash: 'a hash' },
    session: { id: sessionId, expiresAt, cookieDigest: null, userAgent: '', ip: '::1' },
    refreshToken: issued.stored,
    device: null,
    displaced: NOTHING_DISPLACED,
  }
  const scopes = makeScopes(email)
  await store.attempts.reserve(scopes, email, now)
  assert.ok(await store.attempts.succeed(opening, scopes, now))
  return { sessionId, token: issued.token }
}
