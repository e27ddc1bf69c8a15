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
  ...{ ...USER, email: 'ann.b99@mail.example.org', name: 'Ann-Marie de Østergård' },
  ...{ brandName: 'Acme Log-in', current: 'the old passphrase' },
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
    const parts = ['wertyuio', 'passwor\u212a', 'copyright (c) 2021 @zxcvbn-ts', '# copyright']
    for (const password of parts) {
      assert.equal(await findPasswordFlaw(password, USER), null, password)
    }
  })
})

function toTitle(text: string): string {
  return text.slice(0, 1).toUpperCase() + text.slice(1)
}

describe('a password', () => {
  const judged = (flaw: PasswordFlaw | null, passwords: string[], user: typeof USER = ANN) =>
    passwords.map(password => ({ password, flaw, user }))
  const CASES = [
    ...judged('too_short', ['xkq vbw', '', EMOJI.repeat(7)]),
    ...judged('too_short', ['fourteen chars'], { minLength: 15 }),
    ...judged(null, ['fifteen charact'], { minLength: 15 }),
    ...judged(null, ['xkq vbwz', '        ', EMOJI.repeat(8), 'The old passphrase']),
    ...judged('too_long', ['q'.repeat(73), '\udc00']),
    ...judged('unchanged', ['the old passphrase']),
    ...judged('too_common', ['baseball']),
    // The email, and its part before the "@".
    ...judged('personal', ['ann.b99@mail.example.org', 'ANN.B99@mail.example.org']),
    ...judged('personal', ['1ann.b99@mail.example.org!', 'ann.b99!', 'Ann_B-2024', 'annb99mail']),
    ...judged('personal', ['Ann.B99-Mail.Example', 'ann.b99example!']),
    ...judged(null, ['mail.example.org', 'ann b99 examples']),
    ...judged('personal', ['bobexample', 'Bob@Example', 'bob.example1', '2024bobexample!'], BOB),
    ...judged(null, ['bob sees an example'], BOB),
    ...judged('personal', ['555-012-3456'], OF_DIGITS),
    ...judged(null, ['9-8-3-4-1-7-9', '?!-?!-?!-?!'], OF_DIGITS),
    // The name and its parts, but not the short ones.
    ...judged('personal', ['Ann-Marie de Østergård', 'annmariedeøstergård', '!!ØSTERGÅRD 1990']),
    ...judged('personal', ['Østerga\u030ard', 'ann12345', 'marie#2024']),
    ...judged(null, ['O\u0308stergård', 'de123456', 'ann marie', 'annual marie', 'annx2024']),
    ...judged(null, ['1a2n3n4x']),
    // The name of the service.
    ...judged('personal', ['acme log-in', 'AcmeLogin2024!', '\uff21cme Login']),
    ...judged(null, ['acme lantern']),
  ]
  for (const { password, flaw, user } of CASES) {
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
