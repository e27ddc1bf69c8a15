import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import { describe, test } from 'node:test'
import { createAuthenticator, STEP_MS } from '../../test/support/authenticator.ts'
import { findCode, parseSecret, toBase32 } from './totp.ts'

const NOW = new Date('2030-01-01T00:00:00Z')
const SECRET = Buffer.from('12345678901234567890')

/** RFC 6238, appendix B, for SHA-1. Its codes have eight digits; the last six are those of a code of six. */
const VECTORS: [seconds: number, code: string][] = [
  [59, '94287082'],
  [1111111109, '07081804'],
  [1111111111, '14050471'],
  [1234567890, '89005924'],
  [2000000000, '69279037'],
  [20000000000, '65353130'],
]
for (const [seconds, code] of VECTORS) {
  test(`RFC 6238: at ${seconds} the code ends with ${code.slice(2)}`, () => {
    const found = findCode(SECRET, code.slice(2), new Date(seconds * 1000))
    assert.deepEqual(found, {
      usedTo: new Date(Math.floor(seconds / 30) * STEP_MS),
      ...{ offsetSeconds: 0, isAccepted: true },
    })
  })
}

test('a code is accepted one step before and after its own, and recognised within ten', () => {
  for (const intoStepMs of [0, 1, STEP_MS - 1]) {
    const now = new Date(NOW.getTime() + intoStepMs)
    const app = createAuthenticator(() => now, SECRET)
    for (let step = -12; step <= 12; step++) {
      const found = findCode(SECRET, app.code(step), now)
      if (Math.abs(step) > 10) assert.equal(found, null)
      else {
        assert.deepEqual(found, {
          usedTo: new Date(NOW.getTime() + step * STEP_MS),
          offsetSeconds: step * 30,
          isAccepted: Math.abs(step) <= 1,
        })
      }
    }
  }
})

test('a code that is right twice counts for the nearer step', () => {
  // Found by search: its codes of five steps ago and of the next step are the same.
  const secret = createHash('sha1').update('secret 43275').digest()
  const app = createAuthenticator(() => NOW, secret)
  assert.equal(app.code(-5), app.code(1))
  assert.equal(findCode(secret, app.code(1), NOW)?.offsetSeconds, 30)
})

test('nothing else is a code', () => {
  const right = createAuthenticator(() => NOW, SECRET).code()
  const others = ['', '0', ' ', right.slice(1), `${right}0`, `0${right}`, `-${right}`, `${right}\0`]
  const wide = right.replace(/\d/g, digit => String.fromCodePoint(0xff10 + Number(digit)))
  for (const typed of [...others, wide, right.replace(/\d$/, 'x'), 'x'.repeat(16_000)]) {
    assert.equal(findCode(SECRET, typed, NOW), null, typed.slice(0, 20))
  }
})

test('a clock before 1970 is no error', () => {
  for (const now of [new Date(0), new Date(-STEP_MS * 100)]) {
    assert.equal(findCode(SECRET, '', now), null)
  }
})

describe('base32', () => {
  const bytesOf = (length: number) => Buffer.from('foobar'.repeat(20)).subarray(0, length)

  test('is that of RFC 4648, without padding', () => {
    const texts = ['', 'MY', 'MZXQ', 'MZXW6', 'MZXW6YQ', 'MZXW6YTB', 'MZXW6YTBOI']
    for (const [length, text] of texts.entries()) assert.equal(toBase32(bytesOf(length)), text)
    assert.equal(toBase32(Buffer.alloc(5, 0xff)), '77777777')
  })

  test('of 20 to 64 bytes comes back as they were, however it is typed', () => {
    for (let length = 20; length <= 64; length++) {
      const bytes = randomBytes(length)
      const text = toBase32(bytes)
      const groups = (text.match(/.{1,4}/g) ?? []).join(' ')
      const padded = text.padEnd(Math.ceil(text.length / 8) * 8, '=')
      for (const typed of [text, text.toLowerCase(), groups, ` ${groups}\n`, padded]) {
        assert.deepEqual(parseSecret(typed), bytes, typed)
      }
    }
  })

  test('of other lengths, and other text, is no secret', () => {
    const text = toBase32(SECRET)
    const malformed = [
      ...['', '=', 'MY======', toBase32(bytesOf(19)), toBase32(bytesOf(65))],
      ...['0', '1', '8', '9', '-', '+', '\0'].map(character => `${text}${character}`),
      ...[text.slice(1), 'A'.repeat(16_000), `${text}===!`],
    ]
    for (const typed of malformed) assert.equal(parseSecret(typed), null, typed.slice(0, 80))
  })
})
