import assert from 'node:assert/strict'
import { test } from 'node:test'
import { requestId } from './log.ts'

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/
const GIVEN = '0b6f5c3e-1111-4222-8333-00000000abcd'

const TAKEN = [
  GIVEN,
  GIVEN.toUpperCase(),
  '00000000-0000-0000-0000-000000000000',
  '01890a5d-ac96-774b-bcce-b302099a8057',
]
for (const given of TAKEN) {
  test(`the caller's request id ${given} is used unchanged`, () => {
    assert.equal(requestId({ headers: { 'x-request-id': given } }), given)
  })
}

const REPLACED: [why: string, given: string | string[] | undefined][] = [
  ['no id', undefined],
  ['an empty id', ''],
  ['a number', '1'],
  ['a UUID with a tail', `${GIVEN}x`],
  ['a UUID with a line end', `${GIVEN}\n`],
  ['a UUID after a space', ` ${GIVEN}`],
  ['two UUIDs', `${GIVEN}, ${GIVEN}`],
  ['a list', [GIVEN]],
  ['braces', `{${GIVEN}}`],
  ['no hyphens', GIVEN.replaceAll('-', '')],
  ['other letters', GIVEN.replace('a', 'g')],
  ['digits of another script', GIVEN.replace('0', '٠')],
  ['a forged line', '{"event":"login.succeeded"}'],
  ['5,000 characters', 'a'.repeat(5_000)],
]
for (const [why, given] of REPLACED) {
  test(`a new random request id replaces ${why}`, () => {
    const headers = { 'x-request-id': given }
    const made = requestId({ headers })
    assert.match(made, UUID)
    assert.notEqual(requestId({ headers }), made)
  })
}
