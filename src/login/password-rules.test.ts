import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { describe, test } from 'node:test'
import { makeCommonPasswords } from '../../tools/common-passwords.ts'
import {
  COMMON_PASSWORDS_FILE,
  describeFlaw,
  findPasswordFlaw,
  type PasswordFlaw,
} from './password-rules.ts'

const EMOJI = '\u{1f600}'
const USER = { minLength: 8 }
const ANN = {
  ...USER,
  email: 'ann.b99@mail.example.org',
  name: 'Ann-Marie de Østergård',
  brandName: 'Acme Log-in',
  current: 'the old passphrase',
}
const BOB = { ...USER, email: 'bob@example.com' }
const OF_DIGITS = { ...USER, email: '5550123456@example.org', name: '-' }

describe('common passwords', () => {
  const text = readFileSync(COMMON_PASSWORDS_FILE, 'utf8')
  const [, list = ''] = text.split('\n\n')
  const passwords = list.trimEnd().split('\n')

  test('the file is what the generator makes, with its licence', () => {
    assert.equal(text, makeCommonPasswords())
    assert.match(text, /^# .*zxcvbn-ts.*\n#\n# Copyright .*\n(#.*\n)+\npassword\n12345678\n/)
  })

  test('at least 10,000 have 8 or more characters, and none of them can be set in any case', async () => {
    assert.ok(passwords.length >= 10_000)
    for (const password of passwords) {
      assert.ok(password.length >= 8, password)
      for (const typed of [password, password.toUpperCase(), toTitle(password)]) {
        assert.equal(await findPasswordFlaw(typed, USER), 'too_common', typed)
      }
    }
  })

  test('a part of the list, or of one of its passwords, is not a common password', async () => {
    for (const password of [
      'wertyuio',
      'passwor\u212a',
      'copyright (c) 2021 @zxcvbn-ts',
      '# copyright',
    ]) {
      assert.equal(await findPasswordFlaw(password, USER), null, password)
    }
  })
})

function toTitle(text: string): string {
  return text.slice(0, 1).toUpperCase() + text.slice(1)
}

describe('a password', () => {
  const CASES: [password: string, flaw: PasswordFlaw | null, user?: typeof USER][] = [
    ['xkq vbw', 'too_short'],
    ['xkq vbwz', null],
    ['', 'too_short'],
    ['        ', null],
    [EMOJI.repeat(7), 'too_short'],
    [EMOJI.repeat(8), null],
    ['fourteen chars', 'too_short', { minLength: 15 }],
    ['fifteen charact', null, { minLength: 15 }],
    ['q'.repeat(73), 'too_long'],
    ['\udc00', 'too_long'],
    ['the old passphrase', 'unchanged'],
    ['The old passphrase', null],
    // The email, and its part before the "@".
    ['ann.b99@mail.example.org', 'personal'],
    ['ANN.B99@mail.example.org', 'personal'],
    ['1ann.b99@mail.example.org!', 'personal'],
    ['ann.b99!', 'personal'],
    ['Ann_B-2024', 'personal'],
    ['mail.example.org', null],
    ['annb99mail', 'personal'],
    ['Ann.B99-Mail.Example', 'personal'],
    ['ann.b99example!', 'personal'],
    ['ann b99 examples', null],
    ['bobexample', 'personal', BOB],
    ['Bob@Example', 'personal', BOB],
    ['bob.example1', 'personal', BOB],
    ['2024bobexample!', 'personal', BOB],
    ['bob sees an example', null, BOB],
    ['555-012-3456', 'personal', OF_DIGITS],
    ['9-8-3-4-1-7-9', null, OF_DIGITS],
    ['?!-?!-?!-?!', null, OF_DIGITS],
    // The name and its parts, but not the short ones.
    ['Ann-Marie de Østergård', 'personal'],
    ['annmariedeøstergård', 'personal'],
    ['!!ØSTERGÅRD 1990', 'personal'],
    ['O\u0308stergård', null],
    ['Østerga\u030ard', 'personal'],
    ['ann12345', 'personal'],
    ['marie#2024', 'personal'],
    ['de123456', null],
    ['ann marie', null],
    ['annual marie', null],
    ['annx2024', null],
    ['1a2n3n4x', null],
    // The name of the service.
    ['acme log-in', 'personal'],
    ['AcmeLogin2024!', 'personal'],
    ['\uff21cme Login', 'personal'],
    ['acme lantern', null],
    ['baseball', 'too_common'],
  ]
  for (const [password, flaw, user = ANN] of CASES) {
    const shown = JSON.stringify(password.slice(0, 30)).replace(
      /[^ -~]/g,
      unit => `\\u${unit.charCodeAt(0).toString(16)}`,
    )
    test(`${shown} of ${Buffer.byteLength(password)} bytes: ${flaw ?? 'may be set'}`, async () => {
      assert.equal(await findPasswordFlaw(password, user), flaw)
    })
  }
})

test('each flaw is described with what to do', () => {
  assert.match(describeFlaw('too_short', 15), /fewer than 15 characters; choose a longer one$/)
  for (const flaw of ['too_long', 'too_common', 'personal', 'unchanged'] as const) {
    assert.match(describeFlaw(flaw, 8), /; choose a/)
  }
})
