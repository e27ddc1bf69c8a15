import assert from 'node:assert/strict'
import { createHook } from 'node:async_hooks'
import { describe, test } from 'node:test'
import bcrypt from 'bcrypt'
import fc from 'fast-check'
import { createPasswords, owedCosts } from './passwords.ts'

const COST = 6
const PASSWORD = 'correct horse battery staple'
/** A hash of cost 16, stored here because making one takes seconds. */
const COST_16_HASH = '$2b$16$qNXUycowBN31WnBrEDk7IewWJohHw5fetl.KkFUgQFBuoC51GJSGG'

const passwords = await createPasswords(COST)
const hash = await bcrypt.hash(PASSWORD, COST)

/** Counts the comparisons that bcrypt makes during the work. */
async function observe<T>(work: () => Promise<T>) {
  let comparisons = 0
  const hook = createHook({
    init(_id, type) {
      if (type.startsWith('bcrypt:') && type.includes('Compare')) comparisons++
    },
  }).enable()
  const result = await work()
  hook.disable()
  return { result, comparisons }
}

describe('verifying', () => {
  for (const prefix of ['$2a$', '$2b$', '$2y$']) {
    test(`accepts hashes that start with ${prefix}`, async () => {
      const stored = hash.replace('$2b$', prefix)
      assert.equal(await passwords.verify(PASSWORD, stored), true)
      assert.equal(await passwords.verify(`${PASSWORD} `, stored), false)
    })
  }

  test('accepts hashes of lower and higher cost', async () => {
    for (const cost of [4, 5, 7, 8]) {
      const stored = await bcrypt.hash(PASSWORD, cost)
      assert.equal(await passwords.verify(PASSWORD, stored), true, String(cost))
      assert.equal(await passwords.verify('wrong', stored), false, String(cost))
    }
  })

  const UNUSABLE: [what: string, stored: string | null][] = [
    ['no user', null],
    ['an empty hash', ''],
    ['garbage', 'garbage'],
    ['a password in plain text', PASSWORD],
    ['another algorithm', `$argon2id$v=19$m=65536,t=3,p=4$${'a'.repeat(40)}`],
    ['an unknown prefix', hash.replace('$2b$', '$2x$')],
    ['a truncated hash', hash.slice(0, -1)],
    ['a hash with an extra character', `${hash}x`],
    ['a hash with a line end', `${hash}\n`],
    ['a character that bcrypt does not use', `${hash.slice(0, -1)}!`],
    ['cost 3', hash.replace('$06$', '$03$')],
    ['cost 16', COST_16_HASH],
    ['cost 31', hash.replace('$06$', '$31$')],
    ['cost 99', hash.replace('$06$', '$99$')],
  ]
  for (const [what, stored] of UNUSABLE) {
    test(`never matches for ${what}, and evaluates one decoy`, async () => {
      for (const typed of [PASSWORD, '', null]) {
        const { result, comparisons } = await observe(() => passwords.verify(typed, stored))
        assert.equal(result, false)
        assert.equal(comparisons, 1)
      }
    })
  }

  test('no guess matches a decoy', async () => {
    const guesses = [
      '',
      ' ',
      'password',
      'decoy',
      'dummy',
      'unknown',
      'null',
      'undefined',
      '\u0000',
    ]
    for (const guess of guesses) assert.equal(await passwords.verify(guess, null), false, guess)
  })

  test('a null password does not match the hash of an empty password', async () => {
    const ofEmpty = await bcrypt.hash('', COST)
    assert.equal(await passwords.verify('', ofEmpty), true)
    const { result, comparisons } = await observe(() => passwords.verify(null, ofEmpty))
    assert.equal(result, false)
    assert.equal(comparisons, 1)
  })
})

describe('equal work', () => {
  const OWED: [stored: number, configured: number, owed: number[]][] = [
    [12, 12, []],
    [11, 12, [11]],
    [10, 12, [10, 11]],
    [4, 8, [4, 5, 6, 7]],
    [13, 12, []],
    [15, 10, []],
  ]
  for (const [stored, configured, owed] of OWED) {
    test(`a hash of cost ${stored} needs these decoys at cost ${configured}: ${owed.join(', ') || 'none'}`, () => {
      assert.deepEqual(owedCosts(stored, configured), owed)
    })
  }

  test('every verification is as much work as one hash of the configured cost', () => {
    const cost = fc.integer({ min: 4, max: 15 })
    fc.assert(
      fc.property(cost, cost, (stored, configured) => {
        fc.pre(stored <= configured)
        const work = [stored, ...owedCosts(stored, configured)].map(each => 2 ** each)
        assert.equal(
          work.reduce((sum, each) => sum + each, 0),
          2 ** configured,
        )
      }),
    )
  })

  test('decoys are evaluated for right and for wrong passwords', async () => {
    for (const [cost, expected] of [
      [COST - 2, 3],
      [COST - 1, 2],
      [COST, 1],
      [COST + 1, 1],
    ] as const) {
      const stored = await bcrypt.hash(PASSWORD, cost)
      for (const typed of [PASSWORD, 'wrong', null]) {
        const { comparisons } = await observe(() => passwords.verify(typed, stored))
        assert.equal(comparisons, expected, `cost ${cost}, ${typed}`)
      }
    }
  })
})

describe('hashing', () => {
  test('produces salted hashes of the configured cost that can be verified', async () => {
    const [one, other] = await Promise.all([passwords.hash(PASSWORD), passwords.hash(PASSWORD)])
    assert.notEqual(one, other)
    assert.match(one, /^\$2b\$06\$/)
    assert.equal(await passwords.verify(PASSWORD, one), true)
  })

  test('a hash of another cost and an unusable hash are outdated', async () => {
    assert.equal(passwords.isOutdated(hash), false)
    assert.equal(passwords.isOutdated(hash.replace('$2b$', '$2y$')), false)
    for (const stored of [hash.replace('$06$', '$05$'), hash.replace('$06$', '$07$'), 'garbage']) {
      assert.equal(passwords.isOutdated(stored), true, stored)
    }
  })
})
