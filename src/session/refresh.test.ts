import assert from 'node:assert/strict'
import { test } from 'node:test'
import { insertTestUser, makeScopes } from '../../test/storage/fixtures.ts'
import { openTestStore } from '../../test/support/engines.ts'
import { makeKeys } from '../../test/support/keys.ts'
import type { RefreshTokenStore } from '../domain/refresh-token.ts'
import type { LiveSession } from '../domain/session.ts'
import { openSession } from '../login/open-session.ts'
import { createReadLimit, createRefreshLimits } from './rate-limit.ts'
import { refresh, renewAccess } from './refresh.ts'

const now = new Date()
const keys = await makeKeys(now)
/** Of the time that all tries have, and what is left of it. */
const FIRST_TRY_MS = 1_500
const LEFT_MS = 300
const EMAIL = 'ann@example.com'
const caller = { requestId: null, group: '192.0.2.1', userAgent: '' }
const tokens = { issuer: 'https://login.example.com', audience: 'api', accessSeconds: 3600 }

async function openRefreshing() {
  const { store } = await openTestStore('sqlite')
  const time = { now }
  const clock = () => time.now
  const refreshLimits = createRefreshLimits(clock)
  const deps = { store, keys, tokens, clock, refreshLimits, secondFactorRoles: [] }
  await insertTestUser(store, EMAIL, now)
  const user = await store.users.findByEmail(EMAIL)
  assert.ok(user)
  const client = { ip: '::1', userAgent: '', isBrowser: false }
  const limits = { maxSessionsPerUser: 100, sessionMaxSeconds: 30 * 24 * 3600 }
  const accepted = { user, client, amr: ['pwd'], device: null, oldCookie: null }
  const opened = await openSession({ ...deps, ...limits }, accepted, makeScopes())
  assert.ok(opened)
  const { id: sessionId, refreshToken: token } = opened
  return {
    ...{ sessionId, token, deps },
    findSession: () => store.sessions.findLive(sessionId, now),
    refreshAt(ms: number, last = token) {
      time.now = new Date(now.getTime() + ms)
      return refresh(deps, last, caller)
    },
    /** Replaces tokens by another function than that of the store. */
    refreshBy(use: RefreshTokenStore['use']) {
      const { find } = store.refreshTokens
      return refresh({ ...deps, store: { ...store, refreshTokens: { find, use } } }, token, caller)
    },
  }
}

test('a session is refreshed and renewed at most 60 times in a minute', async () => {
  const { refreshAt, deps, token, sessionId, findSession } = await openRefreshing()
  const limited = { kind: 'limited', sessionId, retryAfterSeconds: 60 }
  assert.deepEqual(await refreshAt(0, 'no token'), { kind: 'invalid', reason: 'malformed' })
  let replaced = ''
  let last = token
  for (let i = 0; i < 60; i++) {
    const outcome = await refreshAt(0, last)
    assert.ok(outcome.kind === 'refreshed' && outcome.expiresInSeconds === 3600)
    replaced = last
    last = outcome.refreshToken
  }
  assert.deepEqual(await refreshAt(0, last), limited)
  assert.deepEqual(await refreshAt(0, replaced), limited)
  assert.equal(deps.refreshLimits.begin('another session', 'another user'), null)
  assert.deepEqual(await refreshAt(30_500, last), { ...limited, retryAfterSeconds: 30 })
  const live = await findSession()
  assert.ok(live.kind === 'live')
  assert.deepEqual(renewAccess(deps, live), { ...limited, retryAfterSeconds: 30 })
  assert.equal((await refreshAt(60_000, last)).kind, 'refreshed')
  const renewed = renewAccess(deps, live)
  assert.ok(renewed.kind === 'renewed' && renewed.expiresInSeconds === 3600)
})

test('a repetition counts towards the limit too', async () => {
  const { refreshAt, sessionId } = await openRefreshing()
  for (let i = 0; i < 60; i++) assert.equal((await refreshAt(0)).kind, 'refreshed')
  assert.deepEqual(await refreshAt(0), { kind: 'limited', sessionId, retryAfterSeconds: 60 })
  assert.deepEqual(await refreshAt(59_999), { kind: 'limited', sessionId, retryAfterSeconds: 1 })
})

test('all sessions of a user get 600 refreshes in a minute', async () => {
  const { refreshAt, deps, token, sessionId, findSession } = await openRefreshing()
  const live = await findSession()
  assert.ok(live.kind === 'live')
  for (let i = 0; i < 599; i++) {
    const other: LiveSession = { ...live, session: { ...live.session, id: `session ${i % 10}` } }
    assert.equal(renewAccess(deps, other).kind, 'renewed')
  }
  const { refreshToken: last } = Object(await refreshAt(0, token))
  const limited = { kind: 'limited', sessionId, retryAfterSeconds: 60 }
  assert.deepEqual(await refreshAt(0, last), limited)
  assert.deepEqual(renewAccess(deps, live), limited)
  const user = { ...live.user, id: 'another user' }
  assert.equal(renewAccess(deps, { ...live, user }).kind, 'renewed')
})

test('the tokens of ended sessions do not count for their user', async () => {
  const { deps, refreshAt, token, sessionId, findSession } = await openRefreshing()
  const live = await findSession()
  assert.ok(live.kind === 'live')
  await deps.store.sessions.end(sessionId, now)
  for (let i = 0; i < 60; i++) assert.equal((await refreshAt(0, token)).kind, 'invalid')
  const { begin, count } = deps.refreshLimits
  assert.equal(begin(sessionId, live.user.id)?.retryAfterSeconds, 60)
  for (let i = 0; i < 600; i++) assert.equal(count(`session ${i % 10}`, live.user.id), null)
  assert.equal(count('one more', live.user.id)?.retryAfterSeconds, 60)
})

test('a token that was replaced long ago ends its session, however often that was refreshed', async () => {
  const { refreshAt, token, sessionId } = await openRefreshing()
  let last = token
  for (let i = 0; i < 60; i++) last = Object(await refreshAt(0, last)).refreshToken
  assert.equal((await refreshAt(0, last)).kind, 'limited')
  assert.partialDeepStrictEqual(await refreshAt(0, token), { kind: 'reused', sessionId })
  assert.equal((await refreshAt(60_000, last)).kind, 'invalid')
})

test('a limit ends with its minute, also after the clock was set back', () => {
  const time = { now }
  const limit = createReadLimit(() => time.now)
  const isLimited = () => limit('a session') !== null
  for (const hours of [0, 9, 8]) {
    time.now = new Date(now.getTime() + hours * 3600_000)
    for (let i = 0; i < 600; i++) assert.equal(isLimited(), false)
    assert.equal(isLimited(), true)
  }
})

test('a token that is not replaced although it is unused is used again, and never taken for reuse', async () => {
  for (const [failures, expected] of [
    [1, 'refreshed'],
    [4, 'refreshed'],
    [5, 'fault'],
  ] as const) {
    const { refreshBy, findSession, deps } = await openRefreshing()
    let left: number = failures
    const { find, use } = deps.store.refreshTokens
    const { kind } = await refreshBy((id, digest, successor, now) =>
      left-- > 0 ? find(id, digest, now) : use(id, digest, successor, now),
    ).catch(() => ({ kind: 'fault' }))
    assert.equal(kind, expected)
    assert.equal((await findSession()).kind, 'live')
  }
})

test('a second try gets only the time that the first one has left', async t => {
  const { refreshBy, deps } = await openRefreshing()
  // Only the first try moves this clock.
  let nowMs = 0
  t.mock.method(performance, 'now', () => nowMs)
  const timers = t.mock.method(globalThis, 'setTimeout')
  let tries = 0
  const refreshing = refreshBy((id, digest, _successor, now) => {
    if (++tries > 1) return new Promise(() => {})
    nowMs += FIRST_TRY_MS
    return deps.store.refreshTokens.find(id, digest, now)
  })
  await assert.rejects(refreshing, /timeout: the database is slow/)
  assert.equal(tries, 2)
  const limits = timers.mock.calls.map(({ arguments: [, ms] }) => ms)
  assert.ok(limits.includes(LEFT_MS), limits.join())
})
