// The service remembers the 10,000 access tokens that it verified last, so that its memory does not grow.
import assert from 'node:assert/strict'
import { generateKeyPairSync, randomUUID } from 'node:crypto'
import { test } from 'node:test'
import { createKeys, importKeys } from '../../src/keys/key-set.ts'
import { createFirstKeys } from '../../src/keys/rotation.ts'
import { createAccessTokenReader, signAccessToken } from '../../src/session/access-token.ts'
import { inParallel } from '../support/own.ts'

const REMEMBERED = 10_000

test('the 10,001st access token takes the place of the first, and of no other', async () => {
  const now = new Date()
  const {
    keys: [, secret = {}],
  } = await createFirstKeys(now)
  // The fastest kind.
  const key = generateKeyPairSync('ed25519').privateKey.export({ format: 'jwk' })
  const keys = createKeys(await importKeys({ keys: [key, secret] }))
  const { accessKey } = keys.signingAt(now)
  const settings = { issuer: 'https://login.example.com', audience: 'api', accessSeconds: 3600 }
  const user = { id: randomUUID(), email: 'ann@example.com', name: 'Ann', role: 'user' }
  const expiresAt = new Date(now.getTime() + 3_600_000)
  const session = { id: randomUUID(), expiresAt, amr: ['pwd'] }
  const newToken = () => signAccessToken(accessKey, settings, user, session, now).accessToken
  const readToken = createAccessTokenReader(keys, settings)
  const read = (token: string) => readToken(token, now)

  const [first, second] = [newToken(), newToken()]
  const [firstRead, secondRead] = [await read(first), await read(second)]
  await inParallel(REMEMBERED - 1, () => read(newToken()))
  // A token that is verified again gets another object.
  assert.equal(await read(second), secondRead)
  assert.notEqual(await read(first), firstRead)
  assert.deepEqual(await read(first), firstRead)
})
