import assert from 'node:assert/strict'
import { hash, randomUUID } from 'node:crypto'
import { test } from 'node:test'
import { insertTestUser, makeScopes, openFor } from '../../test/storage/fixtures.ts'
import { openTestStore } from '../../test/support/engines.ts'
import { makeKeys } from '../../test/support/keys.ts'
import { digestOf, randomToken } from '../system/identifiers.ts'
import { redeemCode } from './redeem-code.ts'

const NOW = new Date('2030-01-01T00:00:00Z')
const LIFETIME_MS = 60_000
const VERIFIER = randomToken()
const ORIGIN = 'https://app.example.net'

type Redemption = Parameters<typeof redeemCode>[1]

/** Tries to redeem codes of one session. */
async function openRedeeming() {
  const { store } = await openTestStore('sqlite')
  const keys = await makeKeys(NOW)
  const tokens = { issuer: 'https://login.example.com', audience: 'api', accessSeconds: 3600 }
  const deps = { store, keys, tokens, clock: () => NOW, maxSessionsPerUser: 100 }
  const userId = await insertTestUser(store, 'ann@example.com', NOW)
  const page = { id: randomUUID(), ip: '::1' }
  await openFor(store, { id: userId, passwordHash: 'a hash' }, makeScopes(), NOW, 100, page)
  return {
    ...{ store, page },
    /** The kind of the outcome, or the reason of a refusal. */
    async redeem(leftMs: number, given: Partial<Redemption> = {}, codes = store.codes) {
      const code = randomToken()
      const challenge = hash('sha256', VERIFIER, 'base64url')
      const expiresAt = new Date(NOW.getTime() + leftMs)
      const issued = { callback: `${ORIGIN}/logged-in`, challenge, expiresAt }
      await store.codes.insert(digestOf(code), page.id, issued)
      const client = { ip: '::1', userAgent: 'an application' }
      const redemption = { code, verifier: VERIFIER, origin: ORIGIN, client, ...given }
      const outcome = await redeemCode({ ...deps, store: { codes } }, redemption)
      return outcome.kind === 'invalid' ? outcome.reason : outcome.kind
    },
  }
}

test('a code is redeemed until its end, which is two lifetimes away at most; else the log says why not', async () => {
  const { redeem } = await openRedeeming()
  const cases: [leftMs: number, given: Partial<Redemption>, string][] = [
    [0, {}, 'code-expired'],
    [1, {}, 'redeemed'],
    [2 * LIFETIME_MS, {}, 'redeemed'],
    [2 * LIFETIME_MS + 1, {}, 'code-expired'],
    [LIFETIME_MS, { origin: undefined }, 'redeemed'],
    [LIFETIME_MS, { origin: 'https://other.example.org' }, 'wrong-origin'],
    [LIFETIME_MS, { verifier: randomToken() }, 'wrong-verifier'],
    [LIFETIME_MS, { verifier: 'short' }, 'malformed'],
    [LIFETIME_MS, { code: 'short' }, 'malformed'],
    [LIFETIME_MS, { code: randomToken() }, 'unknown-code'],
  ]
  for (const [leftMs, given, expected] of cases) {
    assert.equal(await redeem(leftMs, given), expected, JSON.stringify([leftMs, given]))
  }
})

test('a code is refused if the session of its page ends meanwhile', async () => {
  const { redeem, store, page } = await openRedeeming()
  const find: typeof store.codes.find = async (digest, now) => {
    const found = await store.codes.find(digest, now)
    await store.sessions.end(page.id, now)
    return found
  }
  assert.equal(await redeem(LIFETIME_MS, {}, { ...store.codes, find }), 'changed-meanwhile')
})
