import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { test } from 'node:test'
import { openTestStore } from '../../test/engines.ts'
import { insertTestUser, makeScopes, NOTHING_DISPLACED } from '../../test/storage/fixtures.ts'
import type { Store } from '../domain/store.ts'
import { createGeneration, createKeys, importKeys } from '../keys/key-set.ts'
import { createRefreshLimit, refresh } from './refresh.ts'
import { issueRefreshToken } from './refresh-token.ts'

const now = new Date()
const keys = createKeys(await importKeys({ keys: await createGeneration(now, 0) }))
const tokens = { issuer: 'https://login.example.com', audience: 'api' }

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
    const outcome = await refresh(deps, token).catch(() => ({ kind: 'fault' }))
    assert.equal(outcome.kind, kind)
    assert.equal((await store.findLiveSession(sessionId, now)).kind, 'live')
  }
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
