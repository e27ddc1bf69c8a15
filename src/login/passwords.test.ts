import assert from 'node:assert/strict'
import { createHook } from 'node:async_hooks'
import { describe, test } from 'node:test'
import bcrypt from 'bcrypt'
import fc from 'fast-check'
import { createPasswords, owedCosts } from './passwords.ts'

const COST = 6
const PASSWORD = 'correct horse battery staple'
/** Made with cost 16, which takes seconds. */
const COST_16_HASH = '$2b$16$qNXUycowBN31WnBrEDk7IewWJohHw5fetl.KkFUgQFBuoC51GJSGG'

const passwords = await createPasswords(COST)
const hash = await bcrypt.hash(PASSWORD, COST)

/** How many comparisons bcrypt itself made meanwhile. */
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
    test(`takes hashes that start with ${prefix}`, async () => {
      const stored = hash.replace('$2b$', prefix)
      assert.equal(await passwords.verify(PASSWORD, stored), true)
      assert.equal(await passwords.verify(`${PASSWORD} `, stored), false)
    })
  }

  test('takes hashes of lower and of higher cost', async () => {
    for (const cost of [4, 5, 7, 8]) {
      const stored = await bcrypt.hash(PASSWORD, cost)
      assert.equal(await passwords.verify(PASSWORD, stored), true, String(cost))
      assert.equal(await passwords.verify('wrong', stored), false, String(cost))
    }
  })

  const UNUSABLE: [what: string, stored: string | null][] = [
    ['nobody', null],
    ['an empty hash', ''],
    ['garbage', 'garbage'],
    ['a password in plain text', PASSWORD],
    ['another algorithm', `$argon2id$v=19$m=65536,t=3,p=4$${'a'.repeat(40)}`],
    ['an unknown prefix', hash.replace('$2b$', '$2x$')],
    ['a cut hash', hash.slice(0, -1)],
    ['a hash with a tail', `${hash}x`],
    ['a hash with a line end', `${hash}\n`],
    ['a foreign character', `${hash.slice(0, -1)}!`],
    ['cost 3', hash.replace('$06$', '$03$')],
    ['cost 16', COST_16_HASH],
    ['cost 31', hash.replace('$06$', '$31$')],
    ['cost 99', hash.replace('$06$', '$99$')],
  ]
  for (const [what, stored] of UNUSABLE) {
    test(`matches nothing for ${what}, after the work of one decoy`, async () => {
      for (const typed of [PASSWORD, '', null]) {
        const { result, comparisons } = await observe(() => passwords.verify(typed, stored))
        assert.equal(result, false)
        assert.equal(comparisons, 1)
      }
    })
  }

  test('a decoy is matched by no guess', async () => {
    const guesses = ['', ' ', 'password', 'decoy', 'dummy', 'nobody', 'null', 'undefined', '\u0000']
    for (const guess of guesses) assert.equal(await passwords.verify(guess, null), false, guess)
  })

  test('a password that cannot match does not match the hash of an empty one', async () => {
    const ofEmpty = await bcrypt.hash('', COST)
    assert.equal(await passwords.verify('', ofEmpty), true)
    const { result, comparisons } = await observe(() => passwords.verify(null, ofEmpty))
    assert.equal(result, false)
    assert.equal(comparisons, 1)
  })
})

describe('levelling', () => {
  const OWED: [stored: number, configured: number, owed: number[]][] = [
    [12, 12, []],
    [11, 12, [11]],
    [10, 12, [10, 11]],
    [4, 8, [4, 5, 6, 7]],
    [13, 12, []],
    [15, 10, []],
  ]
  for (const [stored, configured, owed] of OWED) {
    test(`a hash of cost ${stored} at ${configured} owes decoys of ${owed.join(', ') || 'none'}`, () => {
      assert.deepEqual(owedCosts(stored, configured), owed)
    })
  }

  test('makes every verification as much work as one of the configured cost', () => {
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

  test('does the decoys, for a right password as for a wrong one', async () => {
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
  test('makes salted hashes of the configured cost that verify', async () => {
    const [one, other] = await Promise.all([passwords.hash(PASSWORD), passwords.hash(PASSWORD)])
    assert.notEqual(one, other)
    assert.match(one, /^\$2b\$06\$/)
    assert.equal(await passwords.verify(PASSWORD, one), true)
  })

  test('a hash of another cost, or none at all, is outdated', async () => {
    assert.equal(passwords.isOutdated(hash), false)
    assert.equal(passwords.isOutdated(hash.replace('$2b$', '$2y$')), false)
    for (const stored of [hash.replace('$06$', '$05$'), hash.replace('$06$', '$07$'), 'garbage']) {
      assert.equal(passwords.isOutdated(stored), true, stored)
    }
  })
})
