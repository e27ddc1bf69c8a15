import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { anyText } from '../../test/support/any-text.ts'
import {
  canonicalEmail,
  isReachable,
  lookupKey,
  matchablePassword,
  problemWithEmail,
  problemWithNewEmail,
  problemWithPassword,
} from './credentials.ts'

const HAN = '一' // three bytes in UTF-8
const EMOJI = '😀' // four bytes, two UTF-16 units

describe('the canonical email', () => {
  const CANONICAL: [typed: string, canonical: string][] = [
    ['a@example.com', 'a@example.com'],
    ['A.Z@EXAMPLE.COM', 'a.z@example.com'],
    [' \t\r\na@example.com\n', 'a@example.com'],
    ['\u00a0\u3000\ufeffa@example.com\u2028', 'a@example.com'],
    ['a b@example.com', 'a b@example.com'],
    ['\u212Aate@example.com', '\u212Aate@example.com'],
    ['\u0130@example.com', '\u0130@example.com'],
    ['M\u0131xed@example.com', 'm\u0131xed@example.com'],
    ['ÄÖÜ@example.com', 'ÄÖÜ@example.com'],
    ['\u017F@example.com', '\u017F@example.com'],
    ['\uFF21@example.com', '\uFF21@example.com'],
    ['A\u0308@example.com', 'a\u0308@example.com'],
    ['first+Tag@example.com', 'first+tag@example.com'],
    ['first.last@gmail.com', 'first.last@gmail.com'],
    ['\u0000A', '\u0000a'],
    ['', ''],
    [' ', ''],
  ]
  for (const [typed, canonical] of CANONICAL) {
    test(`of ${JSON.stringify(typed)} is ${JSON.stringify(canonical)}`, () => {
      assert.equal(canonicalEmail(typed), canonical)
    })
  }

  test('does not change when it is computed again', () => {
    fc.assert(
      fc.property(anyText(), typed => {
        const once = canonicalEmail(typed)
        assert.equal(canonicalEmail(once), once)
      }),
    )
  })

  test('changes only ASCII capitals and surrounding white space', () => {
    fc.assert(
      fc.property(anyText(), typed => {
        const kept = canonicalEmail(typed)
        const trimmed = typed.trim()
        assert.equal(kept.length, trimmed.length)
        for (let at = 0; at < kept.length; at++) {
          if (kept[at] !== trimmed[at]) assert.match(String(trimmed[at]), /^[A-Z]$/)
        }
      }),
    )
  })
})

describe('the lookup key', () => {
  const KEPT = [
    ...['a@example.com', 'not an email', "' or 1=1 --", 'ä@exämple.com', `${EMOJI}@example.com`],
    'a'.repeat(254),
  ]
  for (const email of KEPT) {
    test(`of ${JSON.stringify(email.slice(0, 30))} is itself`, () => {
      assert.equal(lookupKey(email), email)
    })
  }

  const REPLACED: [why: string, email: string][] = [
    ['too long', 'a'.repeat(255)],
    ['too long in UTF-16 units', EMOJI.repeat(128)],
    ['with NUL', 'a\u0000@example.com'],
    ['with a line end', 'a\r\n@example.com'],
    ['with ESC', '\u001b[2J@example.com'],
    ['with DEL', '\u007f@example.com'],
    ['with a control character beyond ASCII', '\u0085@example.com'],
    ['with a lone high surrogate', '\ud800@example.com'],
    ['with a lone low surrogate', '\udfff@example.com'],
  ]
  for (const [why, email] of REPLACED) {
    test(`of an email ${why} is an email that no user can have`, () => {
      const key = lookupKey(email)
      assert.notEqual(key, email)
      assert.notEqual(problemWithEmail(key), null)
    })
  }

  test('is always text that a database can store', () => {
    fc.assert(
      fc.property(anyText(400), email => {
        const key = lookupKey(email)
        assert.ok(key.isWellFormed() && key.length <= 254 && !key.includes('\u0000'))
      }),
    )
  })
})

describe('the matchable password', () => {
  const MATCHABLE: [why: string, typed: string][] = [
    ['empty', ''],
    ['spaces', '   '],
    ['72 bytes', 'a'.repeat(72)],
    ['72 bytes in 24 characters', HAN.repeat(24)],
    ['72 bytes in 18 characters', EMOJI.repeat(18)],
    ['with NUL', 'abc\u0000def'],
    ['with the replacement character', '\ufffd'],
  ]
  for (const [why, typed] of MATCHABLE) {
    test(`stays as typed: ${why}`, () => assert.equal(matchablePassword(typed), typed))
  }

  const UNMATCHABLE: [why: string, typed: string][] = [
    ['73 bytes', 'a'.repeat(73)],
    ['75 bytes in 25 characters', HAN.repeat(25)],
    ['73 bytes in 19 characters', `${EMOJI.repeat(18)}a`],
    ['10,000 bytes', 'x'.repeat(10_000)],
    ['a lone high surrogate', 'abc\ud800'],
    ['a lone low surrogate', '\udc00abc'],
  ]
  for (const [why, typed] of UNMATCHABLE) {
    test(`is null for ${why}`, () => assert.equal(matchablePassword(typed), null))
  }
})

describe('what an administrator may give a user', () => {
  const EMAILS: [email: string, problem: RegExp | null][] = [
    ['a@example.com', null],
    ['ä@exämple.com', null],
    ['a@b', null],
    [`${'a'.repeat(242)}@example.com`, null],
    [`${'a'.repeat(243)}@example.com`, /254/],
    ['', /name@domain/],
    ['ann', /name@domain/],
    ['@example.com', /name@domain/],
    ['a@', /name@domain/],
    ['a@b@c', /name@domain/],
    ['a b@example.com', /name@domain/],
    ['a\u0000@example.com', /cannot be stored/],
    ['\ud800@example.com', /cannot be stored/],
  ]
  for (const [email, problem] of EMAILS) {
    test(`email ${JSON.stringify(email.slice(0, 30))}: ${problem ?? 'nothing wrong'}`, () => {
      if (problem === null) assert.equal(problemWithEmail(email), null)
      else assert.match(problemWithEmail(email) ?? '', problem)
    })
  }

  const NEW_EMAILS: [email: string, problem: RegExp | null][] = [
    ['a@example.com', null],
    ['first.last+tag@mail.example.com', null],
    ['ä@exämple.com', null],
    ['Ä@example.com', null],
    ['漢字@例え.jp', null],
    ['иван@пример.рф', null],
    ['คำ@example.com', null],
    ['नमस्ते@example.com', null],
    ['a\u05b0\u05d0@example.com', null],
    [`${EMOJI}@example.com`, null],
    ['a@b', null],
    ['a@[192.0.2.1]', null],
    ['ann', /name@domain/],
    ['a\u0000@example.com', /cannot be stored/],
    ['a\u200bnn@example.com', /U\+200B/],
    ['a\u200cnn@example.com', /U\+200C/],
    ['a\u200dnn@example.com', /U\+200D/],
    ['ann\u00ad@example.com', /U\+00AD/],
    ['ann@exam\u2060ple.com', /U\+2060/],
    ['ann@exam\u034fple.com', /U\+034F/],
    ['ann\u202e@example.com', /U\+202E/],
    ['ann\u061c@example.com', /U\+061C/],
    ['ann\u2066@example.com', /U\+2066/],
    ['ann\u0600@example.com', /U\+0600/],
    ['ann\ufe0f@example.com', /U\+FE0F/],
    ['ann\u3164@example.com', /U\+3164/],
    ['ann\u{e0061}@example.com', /U\+E0061/],
    ['ann\u2800@example.com', /U\+2800/],
    ['ann\ue000@example.com', /U\+E000/],
    ['ann\u0378@example.com', /U\+0378/],
    ['ann\u{10ffff}@example.com', /U\+10FFFF/],
    ['ａnn@example.com', /U\+FF41/],
    ['ann@example。com', /U\+3002/],
    ['ann@example.com\uff0e', /U\+FF0E/],
    ['ann\ufffd@example.com', /U\+FFFD/],
    ['a\u0308nn@example.com', /composed/],
    ['\u212aate@example.com', /composed/],
    ['ann@\u0301example.com', /combining/],
    ['ann@example.com.', /dot/],
    ['ann@.example.com', /dot/],
    ['ann@example..com', /dot/],
    ['.ann@example.com', /dot/],
    ['ann.@example.com', /dot/],
    ['a..nn@example.com', /dot/],
  ]
  for (const [email, problem] of NEW_EMAILS) {
    test(`new email ${toAscii(email)}: ${problem ?? 'nothing wrong'}`, () => {
      const canonical = canonicalEmail(email)
      if (problem === null) assert.equal(problemWithNewEmail(canonical), null)
      else assert.match(problemWithNewEmail(canonical) ?? '', problem)
    })
  }

  test('a login finds every email that an administrator may give', () => {
    fc.assert(
      fc.property(anyText(), anyText(), (name, domain) => {
        const email = canonicalEmail(`${name}@${domain}`)
        if (problemWithNewEmail(email) === null) assert.ok(isReachable(email))
      }),
    )
  })

  const STORED: [email: string, isReached: boolean][] = [
    ['a@example.com', true],
    ['Ä@example.com', true],
    ['a\u200b@example.com', true],
    ['A@example.com', false],
    ['a@EXAMPLE.com', false],
    [' a@example.com', false],
    ['a@example.com\u00a0', false],
    ['a\u0007@example.com', false],
    ['a@example.com\u0000', false],
    ['a\ud800@example.com', false],
    ['a\ufffd@example.com', false],
    [`${EMOJI.repeat(130)}@example.com`, false],
  ]
  for (const [email, isReached] of STORED) {
    test(`stored ${toAscii(email.slice(0, 30))} is ${isReached ? '' : 'not '}found by a login`, () =>
      assert.equal(isReachable(email), isReached))
  }

  const PASSWORDS: [password: string, problem: RegExp | null][] = [
    ['1', null],
    [' ', null],
    ['a'.repeat(72), null],
    ['', /is empty/],
    ['a'.repeat(73), /more than 72 bytes/],
    [HAN.repeat(25), /more than 72 bytes/],
    [`${'a'.repeat(10)}\ud800`, /cannot be stored/],
  ]
  for (const [password, problem] of PASSWORDS) {
    test(`password ${JSON.stringify(password.slice(0, 12))}: ${problem ?? 'nothing wrong'}`, () => {
      if (problem === null) assert.equal(problemWithPassword(password), null)
      else {
        assert.match(problemWithPassword(password) ?? '', problem)
        assert.ok(password === '' || !problemWithPassword(password)?.includes(password))
      }
    })
  }
})

/** Escapes all other characters, so that the text can be part of a test name. */
function toAscii(text: string): string {
  return JSON.stringify(text).replace(
    /[^ -~]/g,
    unit => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
}
