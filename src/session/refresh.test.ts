import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { openTestStore } from '../../test/engines.ts'
import { insertTestUser, makeScopes, NOTHING_DISPLACED } from '../../test/storage/fixtures.ts'
import type { RefreshTokenStore } from '../domain/refresh-token.ts'
import type { Store } from '../domain/store.ts'
import { createGeneration, createKeys, importKeys } from '../keys/key-set.ts'
import { refresh } from './refresh.ts'
import { createRefreshLimit } from './refresh-limit.ts'
import { issueRefreshToken } from './refresh-token.ts'

const now = new Date()
const keys = createKeys(await importKeys({ keys: await createGeneration(now, 0) }))
/** Most of the time that all tries have. */
const FIRST_TRY_MS = 1_500
const FOREVER_MS = 60_000
const caller = { requestId: null, group: '192.0.2.1', userAgent: '' }
const tokens = { issuer: 'https://login.example.com', audience: 'api', accessSeconds: 3600 }
const cookieIdleSeconds = 1800

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
    const deps = { store: failing, keys, tokens, cookieIdleSeconds, clock: () => now, limit }
    const outcome = await refresh(deps, token, caller).catch(() => ({ kind: 'fault' }))
    assert.equal(outcome.kind, kind)
    assert.equal((await store.sessions.findLive(sessionId, now)).kind, 'live')
  }
})

test('a second try gets only the time that the first one has left', async () => {
  const { store } = await openTestStore('sqlite')
  const { token } = await openSession(store)
  const startedMs: number[] = []
  const { find } = store.refreshTokens
  const useSlowly: RefreshTokenStore['use'] = async (id, digest, _successor, now) => {
    startedMs.push(performance.now())
    await sleep(startedMs.length === 1 ? FIRST_TRY_MS : FOREVER_MS, undefined, { ref: false })
    return find(id, digest, now)
  }
  const slow = { ...store, refreshTokens: { find, use: useSlowly } }
  const limit = createRefreshLimit(() => now)
  const deps = { store: slow, keys, tokens, cookieIdleSeconds, clock: () => now, limit }
  await assert.rejects(refresh(deps, token, caller), /timeout: the database is slow/)
  const [firstMs = 0, secondMs = 0] = startedMs
  assert.equal(startedMs.length, 2)
  assert.ok(performance.now() - secondMs < secondMs - firstMs)
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
