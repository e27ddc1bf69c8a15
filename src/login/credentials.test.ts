import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { anyText } from '../../test/support/any-text.ts'
import {
  canonicalEmail,
  isReachable,
  lookupKey,
  problemWithEmail,
  problemWithNewEmail,
  problemWithPassword,
} from './credentials.ts'

const EMOJI = '😀' // four bytes, two UTF-16 units

describe('the canonical email', () => {
  const CANONICAL: [typed: string, canonical: string][] = [
    [' \t\r\nA.Z+Tag@GMAIL.com\n', 'a.z+tag@gmail.com'],
    ['\u00a0\u3000\ufeffa b@example.com\u2028', 'a b@example.com'],
    ['A\u0308@example.com', 'a\u0308@example.com'],
    [' ', ''],
  ]
  for (const [typed, canonical] of CANONICAL) {
    test(`of ${JSON.stringify(typed)} is ${JSON.stringify(canonical)}`, () => {
      assert.equal(canonicalEmail(typed), canonical)
    })
  }

  test('differs only in ASCII capitals and surrounding white space, for every character', () => {
    for (let unit = 0; unit < 2 ** 16; unit++) {
      const character = String.fromCharCode(unit)
      const kept = /[A-Z]/.test(character) ? String.fromCharCode(unit + 32) : character
      assert.equal(canonicalEmail(`x${character}x`), `x${kept}x`)
      assert.equal(canonicalEmail(`${character}x${character}`), `${kept}x${kept}`.trim())
    }
  })
})

describe('a password', () => {
  const PASSWORDS: [why: string, typed: string, problem: RegExp | null][] = [
    ['one character', ' ', null],
    ['72 bytes in 18 characters', EMOJI.repeat(18), null],
    ['nothing', '', /is empty/],
    ['73 bytes in 19 characters', `${EMOJI.repeat(18)}a`, /more than 72 bytes/],
    ['a lone surrogate', 'abc\ud800', /cannot be stored/],
  ]
  for (const [why, typed, problem] of PASSWORDS) {
    test(`of ${why} ${problem === null ? 'can' : 'cannot'} be given`, () =>
      assertProblem(problemWithPassword(typed), problem))
  }
})

describe('what an administrator may give a user', () => {
  const judged = (problem: RegExp | null, ...emails: string[]) =>
    emails.map(email => [email, problem] as const)
  const EMAILS = [
    ...judged(null, 'a@example.com', 'ä@exämple.com', 'a@b', `${'a'.repeat(242)}@example.com`),
    ...judged(null, 'first.last+tag@mail.example.com', 'Ä@example.com', '漢字@例え.jp'),
    ...judged(null, 'иван@пример.рф', 'คำ@example.com', 'नमस्ते@example.com'),
    ...judged(null, 'a\u05b0\u05d0@example.com', `${EMOJI}@example.com`, 'a@[192.0.2.1]'),
    ...judged(/name@domain/, '', 'not an email', '@example.com', 'a@', 'a@b@c', "' or 1=1 --"),
    ...judged(/name@domain/, 'a'.repeat(254)),
    ...judged(/254/, `${'a'.repeat(243)}@example.com`, EMOJI.repeat(128)),
    ...judged(/cannot be stored/, 'a\u0000@example.com', 'a\r\n@example.com'),
    ...judged(/cannot be stored/, '\u001b[2J@example.com', '\u007f@example.com'),
    ...judged(/cannot be stored/, '\u0085@example.com', '\ud800@example.com', '\udfff@example.com'),
  ]
  for (const [email, problem] of EMAILS) {
    test(`email ${toAscii(email.slice(0, 40))}: ${problem ?? 'nothing wrong'}`, () => {
      assertProblem(problemWithEmail(email), problem)
      assertProblem(problemWithNewEmail(email), problem)
      // Without the form of an email it can be looked up all the same.
      const isKept = problem === null || problem.source === 'name@domain'
      assert.equal(lookupKey(email) === email, isKept)
      assert.ok(isKept || problemWithEmail(lookupKey(email)), 'no user can have its lookup key')
    })
  }

  test('the lookup key of any email is text that a database can store', () => {
    fc.assert(
      fc.property(anyText(400), email => {
        const key = lookupKey(email)
        assert.ok(key.isWellFormed() && key.length <= 254 && !key.includes('\u0000'))
      }),
    )
  })

  /** They look like others. Users may have them already. */
  const DECEPTIVE_EMAILS = [
    ...judged(/composed/, 'a\u0308nn@example.com', '\u212aate@example.com'),
    ...judged(/combining/, 'ann@\u0301example.com'),
    ...judged(/dot/, 'ann@example.com.', 'ann@.example.com', 'ann@example..com'),
    ...judged(/dot/, '.ann@example.com', 'ann.@example.com', 'a..nn@example.com'),
    ...[
      ...[0xad, 0x34f, 0x378, 0x600, 0x61c, 0x200b, 0x200c, 0x200d, 0x202e, 0x2060, 0x2066, 0x2800],
      ...[0x3002, 0x3164, 0xe000, 0xfe0f, 0xff0e, 0xff41, 0xfffd, 0xe0061, 0x10ffff],
    ].flatMap(codePoint => {
      const problem = new RegExp(`U\\+${codePoint.toString(16).padStart(4, '0')}`, 'i')
      const character = String.fromCodePoint(codePoint)
      return judged(problem, `ann${character}@example.com`, `ann@${character}example.com`)
    }),
  ]
  for (const [email, problem] of DECEPTIVE_EMAILS) {
    test(`a new email ${toAscii(email)}: ${problem}`, () => {
      assert.equal(problemWithEmail(email), null)
      assertProblem(problemWithNewEmail(email), problem)
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

  const STORED: [isReached: boolean, emails: string[]][] = [
    [true, ['a@example.com', 'Ä@example.com', 'a\u200b@example.com']],
    [false, ['A@example.com', ' a@example.com', 'a@example.com\u00a0']],
    [false, ['a\u0007@example.com', 'a\ufffd@example.com']],
  ]
  for (const [isReached, emails] of STORED) {
    for (const email of emails) {
      test(`stored ${toAscii(email.slice(0, 30))} is ${isReached ? '' : 'not '}found by a login`, () =>
        assert.equal(isReachable(email), isReached))
    }
  }
})

function assertProblem(found: string | null, expected: RegExp | null): void {
  if (expected === null) assert.equal(found, null)
  else assert.match(found ?? '', expected)
}

/** Escapes all other characters, so that the text can be part of a test name. */
function toAscii(text: string): string {
  return JSON.stringify(text).replace(
    /[^ -~]/g,
    unit => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
}
