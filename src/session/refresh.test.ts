import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { openTestStore } from '../../test/engines.ts'
import { insertTestUser, makeScopes, NOTHING_DISPLACED } from '../../test/storage/fixtures.ts'
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

test('a token that is not replaced although it is unused is used again, and never taken for reuse', async () => {
  const { store } = await openTestStore('sqlite')
  for (const [failures, kind] of [
    [1, 'refreshed'],
    [4, 'refreshed'],
    [5, 'fault'],
  ] as const) {
    const { sessionId, token } = await openSession(store)
    let left = failures
    const findOnly: Store['useRefreshToken'] = (id, digest, _successor, now) =>
      store.findRefreshToken(id, digest, now)
    const failing = new Proxy(store, {
      get: (target, name: keyof Store) =>
        name === 'useRefreshToken' && left-- > 0 ? findOnly : target[name],
    })
    const limit = createRefreshLimit(() => now)
    const deps = { store: failing, keys, tokens, clock: () => now, limit }
    const outcome = await refresh(deps, token, caller).catch(() => ({ kind: 'fault' }))
    assert.equal(outcome.kind, kind)
    assert.equal((await store.findLiveSession(sessionId, now)).kind, 'live')
  }
})

test('a second try gets only the time that the first one has left', async () => {
  const { store } = await openTestStore('sqlite')
  const { token } = await openSession(store)
  const startedMs: number[] = []
  const slow = new Proxy(store, {
    get: (target, name: keyof Store) => (name === 'useRefreshToken' ? useSlowly : target[name]),
  })
  const useSlowly: Store['useRefreshToken'] = async (id, digest, _successor, now) => {
    startedMs.push(performance.now())
    await sleep(startedMs.length === 1 ? FIRST_TRY_MS : FOREVER_MS, undefined, { ref: false })
    return store.findRefreshToken(id, digest, now)
  }
  const limit = createRefreshLimit(() => now)
  const deps = { store: slow, keys, tokens, clock: () => now, limit }
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
  await store.reserveAttempt(scopes, email, now)
  assert.ok(await store.openSession(opening, scopes, now))
  return { sessionId, token: issued.token }
}
