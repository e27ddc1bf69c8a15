import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { test } from 'node:test'
import { insertTestUser, makeScopes, openFor } from '../../test/storage/fixtures.ts'
import { openTestStore } from '../../test/support/engines.ts'
import { makeKeys } from '../../test/support/keys.ts'
import { digestOf, randomToken } from '../system/identifiers.ts'
import { createAccessTokenReader, signAccessToken } from './access-token.ts'
import { authenticate, type Credential, endSessionOf } from './authenticate.ts'
import { issueRefreshToken } from './refresh-token.ts'

const NOW_MS = Date.parse('2030-01-01T00:00:00Z')
const NOW = new Date(NOW_MS)
const IDLE_MS = 30 * 60_000
const END_MS = 30 * 24 * 3_600_000
const TOKENS = { issuer: 'https://login.example.com', audience: 'api', accessSeconds: 3600 }

/** A session with a cookie that was last used now, and the credentials of its user. */
async function openWithCookie() {
  const { store, database } = await openTestStore('sqlite')
  const keys = await makeKeys(NOW)
  const time = { ms: NOW_MS }
  const deps = {
    ...{ store, keys, tokens: TOKENS, cookieIdleSeconds: IDLE_MS / 1000 },
    readAccessToken: createAccessTokenReader(keys, TOKENS),
    clock: () => new Date(time.ms),
  }
  const userId = await insertTestUser(store, 'ann@example.com', NOW)
  const session = { id: randomUUID(), ip: '::1', expiresAt: new Date(NOW_MS + END_MS) }
  await openFor(store, { id: userId, passwordHash: 'a hash' }, makeScopes(), NOW, 100, session)
  const cookie: Credential = { kind: 'cookie', value: randomToken() }
  await database.rows(
    `update sessions set cookie_digest = '${digestOf(cookie.value)}', cookie_used_at = created_at`,
  )
  const { accessKey, refreshKey } = keys.signingAt(NOW)
  const { token, stored } = issueRefreshToken(refreshKey, TOKENS.issuer, userId, null, NOW)
  await database.rows(`update refresh_tokens set id = '${stored.id}', token = '${stored.digest}'`)
  const refreshToken: Credential = { kind: 'refresh-token', value: token }
  const accessTokenOf = (id: string): Credential => {
    const user = { id, email: 'ann@example.com', name: 'Ann', role: 'user' }
    const { accessToken } = signAccessToken(accessKey, TOKENS, user, session, NOW)
    return { kind: 'access-token', value: accessToken }
  }
  return {
    ...{ deps, session, database, accessTokenOf },
    ...{ refreshToken, accessToken: accessTokenOf(userId) },
    authenticateAt(ms: number) {
      time.ms = NOW_MS + ms
      return authenticate(deps, cookie)
    },
    async storedTimes() {
      const [row = {}] = await database.rows(
        'select last_used_at, idle_expires_at, expires_at from sessions',
      )
      return Object.values(row).map(at => Date.parse(String(at)) - NOW_MS)
    },
  }
}

test('the use of a cookie is noted once a minute, and keeps its session for 30 minutes, until its end', async () => {
  const { authenticateAt, storedTimes, database } = await openWithCookie()
  // The end of its refresh token.
  const idleEnd = new Date(NOW_MS + 90_000).toISOString()
  await database.rows(`update sessions set idle_expires_at = '${idleEnd}'`)
  assert.equal((await authenticateAt(59_999)).kind, 'live')
  assert.deepEqual(await storedTimes(), [0, 90_000, END_MS])
  assert.equal((await authenticateAt(60_000)).kind, 'live')
  assert.deepEqual(await storedTimes(), [60_000, 60_000 + IDLE_MS, END_MS])
})

test('the log says why a credential has no session', async () => {
  const { deps, accessToken, refreshToken, accessTokenOf, session } = await openWithCookie()
  const stranger = accessTokenOf(randomUUID())
  const wrongUser = { kind: 'invalid', reason: 'wrong-user' }
  assert.deepEqual(await authenticate(deps, stranger), wrongUser)
  assert.deepEqual(await endSessionOf(deps, stranger), wrongUser)
  assert.equal((await authenticate(deps, refreshToken)).kind, 'live')
  const ended = await endSessionOf(deps, accessToken)
  assert.deepEqual([ended.kind, 'id' in ended && ended.id], ['ended', session.id])
  for (const credential of [accessToken, refreshToken]) {
    const isOver = { kind: 'invalid', reason: 'session-ended' }
    assert.deepEqual(await authenticate(deps, credential), isOver)
    assert.deepEqual(await endSessionOf(deps, credential), isOver)
  }
})
