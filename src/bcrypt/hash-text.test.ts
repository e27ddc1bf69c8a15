import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import bcrypt from 'bcrypt'
import fc from 'fast-check'
import { decodeBase64, encodeBase64, parseHash } from './hash-text.ts'

const SALT = 'CCCCCCCCCCCCCCCCCCCCC.'
const DIGEST = 'E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW'
const hashOf = (prefix: string, cost: string, salt = SALT, digest = DIGEST) =>
  `$${prefix}$${cost}$${salt}${digest}`

describe('parsing', () => {
  for (const prefix of ['2a', '2b', '2y']) {
    test(`reads cost, salt and digest of $${prefix}$`, () => {
      for (const cost of ['04', '05', '15']) {
        const parsed = parseHash(hashOf(prefix, cost))
        assert.ok(parsed)
        assert.equal(parsed.cost, Number(cost))
        assert.equal(encodeBase64(parsed.salt), SALT)
        assert.equal(encodeBase64(parsed.digest), DIGEST)
        assert.deepEqual([parsed.salt.length, parsed.digest.length], [16, 23])
      }
    })
  }

  const UNUSABLE: [what: string, text: string | null][] = [
    ['null', null],
    ['an empty text', ''],
    ['a password in plain text', 'correct horse battery staple'],
    ['another algorithm', `$argon2id$v=19$m=65536,t=3,p=4$${'a'.repeat(40)}`],
    ['the prefix $2x$', hashOf('2x', '05')],
    ['the prefix $2$', hashOf('2', '05')],
    ['cost 3', hashOf('2b', '03')],
    ['cost 16', hashOf('2b', '16')],
    ['cost 99', hashOf('2b', '99')],
    ['a cost of one digit', hashOf('2b', '5')],
    ['a missing character', hashOf('2b', '05').slice(0, -1)],
    ['one character too many', `${hashOf('2b', '05')}x`],
    ['a line end', `${hashOf('2b', '05')}\n`],
    ['a character that bcrypt does not use', hashOf('2b', '05', SALT, `${DIGEST.slice(0, -1)}!`)],
    ['stray bits in the salt', hashOf('2b', '05', `${SALT.slice(0, -1)}A`)],
    ['stray bits in the digest', hashOf('2b', '05', SALT, `${DIGEST.slice(0, -1)}X`)],
  ]
  for (const [what, text] of UNUSABLE) {
    test(`returns null for ${what}`, () => assert.equal(parseHash(text), null))
  }

  test('npm bcrypt never matches a hash with stray bits either', async () => {
    assert.equal(await bcrypt.compare('U*U', hashOf('2a', '05')), true)
    const inSalt = hashOf('2a', '05', `${SALT.slice(0, -1)}A`)
    const inDigest = hashOf('2a', '05', SALT, `${DIGEST.slice(0, -1)}X`)
    for (const text of [inSalt, inDigest]) assert.equal(await bcrypt.compare('U*U', text), false)
  })
})

test('base64 in the alphabet of bcrypt can be decoded again', () => {
  assert.equal(encodeBase64(Buffer.from([0x00, 0x10, 0x83])), './AB')
  fc.assert(
    fc.property(fc.uint8Array(), bytes => {
      assert.deepEqual(decodeBase64(encodeBase64(Buffer.from(bytes))), Buffer.from(bytes))
    }),
  )
})
