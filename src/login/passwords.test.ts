import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import bcrypt from 'bcrypt'
import { openHasher } from '../bcrypt/open-hasher.ts'
import { createPasswords } from './passwords.ts'

const COST = 6
const PASSWORD = 'correct horse battery staple'
/** A hash of cost 16, stored here because making one takes seconds. */
const COST_16_HASH = '$2b$16$qNXUycowBN31WnBrEDk7IewWJohHw5fetl.KkFUgQFBuoC51GJSGG'

const passwords = createPasswords(COST)
const hasher = await openHasher('native', 1, () => {}, assert.fail)

/** Whether the password matches, and the rounds of its work. */
async function verify(password: string | null, stored: string | null) {
  const { job, matches } = passwords.check(password, stored)
  const digest = await hasher.start(0, job).digest
  return { isMatch: digest !== null && matches(digest), rounds: [job.rounds, job.totalRounds] }
}

const ROUNDS = [2 ** COST, 2 ** COST]

describe('verifying', () => {
  test('a cheaper hash gets the rounds of one of the configured cost, a more expensive one its own', async () => {
    for (const cost of [4, 5, 6, 7, 8]) {
      const stored = await bcrypt.hash(PASSWORD, cost)
      const rounds = [2 ** cost, 2 ** Math.max(cost, COST)]
      assert.deepEqual(await verify(PASSWORD, stored), { isMatch: true, rounds })
      for (const typed of ['wrong', null]) {
        assert.deepEqual(await verify(typed, stored), { isMatch: false, rounds })
      }
    }
  })

  const UNUSABLE: [what: string, stored: string | null][] = [
    ['no user', null],
    ['garbage', 'garbage'],
    ['another algorithm', `$argon2id$v=19$m=65536,t=3,p=4$${'a'.repeat(40)}`],
    ['cost 16', COST_16_HASH],
  ]
  for (const [what, stored] of UNUSABLE) {
    test(`never matches for ${what}, and is as much work`, async () => {
      for (const typed of [PASSWORD, '', null]) {
        assert.deepEqual(await verify(typed, stored), { isMatch: false, rounds: ROUNDS })
      }
    })
  }

  test('a null password does not match the hash of an empty password', async () => {
    const ofEmpty = await bcrypt.hash('', COST)
    assert.deepEqual(await verify('', ofEmpty), { isMatch: true, rounds: ROUNDS })
    assert.deepEqual(await verify(null, ofEmpty), { isMatch: false, rounds: ROUNDS })
  })
})

describe('hashing', () => {
  test('produces salted hashes of the configured cost that can be verified', async () => {
    const prepared = async () => {
      const { job, toHash } = passwords.prepare(PASSWORD)
      const digest = await hasher.start(0, job).digest
      assert.ok(digest)
      return toHash(digest)
    }
    for (const hash of [() => passwords.hash(PASSWORD), prepared]) {
      const [one, other] = await Promise.all([hash(), hash()])
      assert.notEqual(one, other)
      assert.match(one, /^\$2b\$06\$/)
      assert.ok(await bcrypt.compare(PASSWORD, one))
    }
  })

  test('a hash of another cost and an unusable hash are outdated', async () => {
    const hash = await bcrypt.hash(PASSWORD, COST)
    assert.equal(passwords.isOutdated(hash), false)
    assert.equal(passwords.isOutdated(hash.replace('$2b$', '$2y$')), false)
    for (const stored of [hash.replace('$06$', '$05$'), hash.replace('$06$', '$07$'), 'garbage']) {
      assert.equal(passwords.isOutdated(stored), true, stored)
    }
  })
})
