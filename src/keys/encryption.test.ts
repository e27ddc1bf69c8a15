import assert from 'node:assert/strict'
import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto'
import { describe, test } from 'node:test'
import { makeKeys } from '../../test/support/keys.ts'
import { decrypt, encrypt, keyIdOf } from './encryption.ts'
import { createKeys, type EncryptionKey, importKeys, type Keys } from './key-set.ts'
import { createFirstKeys } from './rotation.ts'

const NOW = new Date('2030-01-01T00:00:00Z')
const BYTES = Buffer.from('canary of twenty byt')
const CONTEXT = 'totp user-1 factor-1'

async function newKeys(): Promise<[Keys, EncryptionKey]> {
  const keys = await makeKeys(NOW)
  return [keys, keyOf(keys)]
}

function keyOf(keys: Keys): EncryptionKey {
  const key = keys.encryptionAt(NOW)
  assert.ok(key)
  return key
}

const [KEYS, KEY] = await newKeys()
const TEXT = encrypt(KEY, BYTES, CONTEXT)
const ENCODED = TEXT.slice(KEY.keyId.length + 1)

test('what is encrypted decrypts in its context, whatever its length', () => {
  for (const length of [0, 1, 20, 64, 1_000]) {
    const bytes = randomBytes(length)
    assert.deepEqual(decrypt(KEYS, encrypt(KEY, bytes, CONTEXT), CONTEXT), bytes)
  }
  const odd = 'ä\u0000\n.'
  assert.deepEqual(decrypt(KEYS, encrypt(KEY, BYTES, odd), odd), BYTES)
})

test('the text names its key and shows nothing else: the same bytes never give the same text', () => {
  assert.equal(keyIdOf(TEXT), KEY.keyId)
  assert.match(ENCODED, /^[\w-]+$/)
  // 12 bytes of IV and 16 of the tag come with the bytes.
  assert.equal(Buffer.from(ENCODED, 'base64url').length, 12 + BYTES.length + 16)
  const texts = Array.from({ length: 1_000 }, () => encrypt(KEY, BYTES, CONTEXT))
  const ivs = texts.map(text => text.slice(KEY.keyId.length + 1).slice(0, 16))
  assert.equal(new Set(ivs).size, 1_000)
})

test('it is AES-256-GCM, as another implementation reads it', async () => {
  const bytes = Buffer.from(ENCODED, 'base64url')
  const key = await crypto.subtle.importKey('raw', KEY.secretKey.export(), 'AES-GCM', false, [
    'decrypt',
  ])
  const parameters = { iv: bytes.subarray(0, 12), additionalData: Buffer.from(CONTEXT) }
  const decrypted = await crypto.subtle.decrypt(
    { name: 'AES-GCM', tagLength: 128, ...parameters },
    key,
    bytes.subarray(12),
  )
  assert.deepEqual(Buffer.from(decrypted), BYTES)
})

test('the id of a key may have dots', async () => {
  const { keys } = await createFirstKeys(NOW)
  const named = keys.map(key => (key.use === 'enc' ? { ...key, kid: 'a.b..' } : key))
  const own = createKeys(await importKeys({ keys: named }))
  const text = encrypt(keyOf(own), BYTES, CONTEXT)
  assert.equal(keyIdOf(text), 'a.b..')
  assert.deepEqual(decrypt(own, text, CONTEXT), BYTES)
})

describe('nothing is decrypted, and nothing thrown,', () => {
  test('in another context, such as a row copied to another user', () => {
    for (const context of ['totp user-2 factor-1', 'totp user-1 factor-2', `${CONTEXT} `, '']) {
      assert.equal(decrypt(KEYS, TEXT, context), null, context)
    }
  })

  test('if a bit of the text has changed', () => {
    const bytes = Buffer.from(ENCODED, 'base64url')
    for (let bit = 0; bit < bytes.length * 8; bit++) {
      const changed = Buffer.from(bytes)
      changed[bit >> 3] = (changed[bit >> 3] ?? 0) ^ (1 << (bit & 7))
      const text = `${KEY.keyId}.${changed.toString('base64url')}`
      assert.equal(decrypt(KEYS, text, CONTEXT), null, `bit ${bit}`)
    }
  })

  test('if its key is unknown, or it names another key', async () => {
    const [others, other] = await newKeys()
    assert.equal(decrypt(others, TEXT, CONTEXT), null)
    const both: Pick<Keys, 'findEncryptionKey'> = {
      findEncryptionKey: keyId => KEYS.findEncryptionKey(keyId) ?? others.findEncryptionKey(keyId),
    }
    assert.deepEqual(decrypt(both, TEXT, CONTEXT), BYTES)
    assert.equal(decrypt(both, `${other.keyId}.${ENCODED}`, CONTEXT), null)
  })

  const start = `${KEY.keyId}.`
  const MALFORMED: [what: string, text: string][] = [
    ['nothing', ''],
    ['a dot', '.'],
    ['no dot', 'x'.repeat(80)],
    ['no id', `.${ENCODED}`],
    ['an id alone', start],
    ['less than IV and tag', start + randomBytes(27).toString('base64url')],
    ['IV and tag alone', start + randomBytes(28).toString('base64url')],
    ['a tag that is cut off', TEXT.slice(0, -2)],
    ['one more character', `${TEXT}A`],
    ['a line break at the end', `${TEXT}\n`],
    ['a space', `${start} ${ENCODED}`],
    ['padding', `${TEXT}=`],
    ['the text twice', `${TEXT}.${TEXT}`],
    ['characters that are no base64', `${start}${'ü'.repeat(80)}`],
  ]
  for (const [what, text] of MALFORMED) {
    test(`of a malformed text: ${what}`, () => assert.equal(decrypt(KEYS, text, CONTEXT), null))
  }

  test('of a tag that is shorter, though it is right', () => {
    const iv = randomBytes(12)
    const shorter = { authTagLength: 12 }
    const cipher = createCipheriv('aes-256-gcm', KEY.secretKey, iv, shorter)
    cipher.setAAD(Buffer.from(CONTEXT))
    const encrypted = Buffer.concat([cipher.update(BYTES), cipher.final()])
    const tag = cipher.getAuthTag()
    const decipher = createDecipheriv('aes-256-gcm', KEY.secretKey, iv, shorter)
    decipher.setAAD(Buffer.from(CONTEXT)).setAuthTag(tag)
    assert.deepEqual(Buffer.concat([decipher.update(encrypted), decipher.final()]), BYTES)
    const text = start + Buffer.concat([iv, encrypted, tag]).toString('base64url')
    assert.equal(decrypt(KEYS, text, CONTEXT), null)
  })
})
