import assert from 'node:assert/strict'
import { test } from 'node:test'
import { digestOf } from '../system/identifiers.ts'
import { digestOfRecoveryCode, makeRecoveryCodes } from './recovery-codes.ts'

test('there are ten, all different, of 120 bits in groups that can be read aloud', () => {
  const sets = Array.from({ length: 500 }, makeRecoveryCodes)
  const codes = sets.flat()
  assert.ok(sets.every(({ length }) => length === 10))
  assert.equal(new Set(codes).size, codes.length)
  // 24 characters of five bits; none of i, l, o and u, which are mistaken for others.
  for (const code of codes) assert.match(code, /^[\da-hjkmnp-tv-z]{4}(-[\da-hjkmnp-tv-z]{4}){5}$/)
  // Each of the 32 characters comes 3,750 times on average, with a standard deviation of 60.
  const counts = new Map<string, number>()
  for (const character of codes.join('').replaceAll('-', '')) {
    counts.set(character, (counts.get(character) ?? 0) + 1)
  }
  assert.equal(counts.size, 32)
  for (const [character, count] of counts) {
    assert.ok(Math.abs(count - 3_750) < 400, `${character}: ${count}`)
  }
})

test('however a code is typed, its digest is the same', () => {
  const code = '4kf2-9wpx-7m0c-q3hd-e8ts-z51r'
  const digest = digestOf('4kf29wpx7m0cq3hde8tsz51r')
  for (const typed of [
    code,
    code.toUpperCase(),
    code.replaceAll('-', ''),
    ` ${code.replaceAll('-', ' ')}\n`,
    // A dash that a phone makes of two hyphens, and full stops.
    code.replaceAll('-', '–'),
    code.replaceAll('-', '. '),
    code.replace('0', 'O').replace('1', 'l'),
    code.replace('0', 'o').replace('1', 'I'),
  ]) {
    assert.equal(digestOfRecoveryCode(typed), digest, typed)
  }
})

test('another code has another digest', () => {
  const [code = '', other = ''] = makeRecoveryCodes()
  const changed = code.replace(/.$/, last => (last === '2' ? '3' : '2'))
  for (const typed of ['', '492039', other, changed, code.slice(1), `${code}2`, `2${code}`]) {
    assert.notEqual(digestOfRecoveryCode(typed), digestOfRecoveryCode(code), typed)
  }
})
