import assert from 'node:assert/strict'
import { createHmac } from 'node:crypto'
import { describe, test } from 'node:test'
import { createChallenges } from './challenges.ts'

const NOW = new Date('2030-01-01T00:00:00.123Z')
const KEY = 'ab'.repeat(32)

describe('a challenge', () => {
  const { make, timeOf } = createChallenges(KEY)

  test('tells its time to every instance with the same key, and no two are the same', () => {
    assert.deepEqual(createChallenges(KEY).timeOf(make(NOW)), NOW)
    for (const time of ['1970-01-01T00:00:00.000Z', '2299-12-31T23:59:59.999Z']) {
      assert.deepEqual(timeOf(make(new Date(time))), new Date(time))
    }
    const made = new Set(Array.from({ length: 1_000 }, () => make(NOW)))
    assert.equal(made.size, 1_000)
    for (const challenge of made) assert.match(challenge, /^[\w-]{51}$/)
  })

  test('of another key, changed, shortened or prolonged is none', () => {
    const challenge = make(NOW)
    const bytes = Buffer.from(challenge, 'base64url')
    for (let i = 0; i < bytes.length; i++) {
      const changed = Buffer.from(bytes)
      changed[i] = (changed[i] ?? 0) ^ 1
      assert.equal(timeOf(changed.toString('base64url')), null)
      assert.equal(timeOf(bytes.subarray(0, i).toString('base64url')), null)
    }
    const longer = Buffer.concat([bytes, Buffer.alloc(1)]).toString('base64url')
    const other = createChallenges('cd'.repeat(32)).make(NOW)
    for (const text of [longer, other, '', '!', 'x'.repeat(10_000), '\0']) {
      assert.equal(timeOf(text), null, text)
    }
  })

  test('is not tagged by the key that tags device cookies', () => {
    const bytes = Buffer.from(make(NOW), 'base64url').subarray(0, 22)
    const tag = createHmac('sha256', Buffer.from(KEY, 'hex')).update(bytes).digest().subarray(0, 16)
    assert.equal(timeOf(Buffer.concat([bytes, tag]).toString('base64url')), null)
  })
})
