import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import bcrypt from 'bcrypt'
import type { HashJob } from '../bcrypt/hasher.ts'
import { openHasher } from '../bcrypt/open-hasher.ts'
import { createPasswords } from './passwords.ts'

const COST = 6
const PASSWORD = 'correct horse battery staple'
/** A hash of cost 16, stored here because making one takes seconds. */
const COST_16_HASH = '$2b$16$qNXUycowBN31WnBrEDk7IewWJohHw5fetl.KkFUgQFBuoC51GJSGG'

const passwords = createPasswords(COST)
const hash = await bcrypt.hash(PASSWORD, COST)
const roundsOf = ({ rounds, totalRounds }: HashJob) => [rounds, totalRounds]
const ONE_HASH = [2 ** COST, 2 ** COST]

for (const engine of ['lanes', 'native'] as const) {
  describe(`verifying with ${engine}`, async () => {
    const hasher = await openHasher(engine, 1, () => {}, assert.fail)
    after(() => hasher.close())

    async function verify(password: string | null, stored: string | null): Promise<boolean> {
      const { job, matches } = passwords.check(password, stored)
      const digest = await hasher.start(0, job).digest
      return digest !== null && matches(digest)
    }

    test('accepts hashes of lower and higher cost', async () => {
      for (const cost of [4, 5, 7, 8]) {
        const stored = await bcrypt.hash(PASSWORD, cost)
        assert.equal(await verify(PASSWORD, stored), true, String(cost))
        assert.equal(await verify('wrong', stored), false, String(cost))
      }
    })

    test('accepts a hash that was made by the same engine, as bcrypt does', async () => {
      const { job, toHash } = passwords.prepare(PASSWORD)
      const digest = await hasher.start(0, job).digest
      assert.ok(digest)
      assert.equal(await verify(PASSWORD, toHash(digest)), true)
      assert.ok(await bcrypt.compare(PASSWORD, toHash(digest)))
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
          assert.equal(await verify(typed, stored), false)
          assert.deepEqual(roundsOf(passwords.check(typed, stored).job), ONE_HASH)
        }
      })
    }

    test('a null password does not match the hash of an empty password', async () => {
      const ofEmpty = await bcrypt.hash('', COST)
      assert.equal(await verify('', ofEmpty), true)
      assert.equal(await verify(null, ofEmpty), false)
      assert.deepEqual(roundsOf(passwords.check(null, ofEmpty).job), ONE_HASH)
    })
  })
}

describe('equal work', () => {
  test('a cheaper hash gets the rounds of one of the configured cost, a more expensive one its own', async () => {
    for (const cost of [4, 5, 6, 7, 8]) {
      const stored = await bcrypt.hash(PASSWORD, cost)
      for (const typed of [PASSWORD, 'wrong', null]) {
        const { job } = passwords.check(typed, stored)
        assert.deepEqual(roundsOf(job), [2 ** cost, 2 ** Math.max(cost, COST)])
      }
    }
  })
})

describe('hashing', () => {
  test('produces salted hashes of the configured cost that can be verified', async () => {
    const [one, other] = await Promise.all([passwords.hash(PASSWORD), passwords.hash(PASSWORD)])
    assert.notEqual(one, other)
    assert.match(one, /^\$2b\$06\$/)
    assert.ok(await bcrypt.compare(PASSWORD, one))
  })

  test('a hash of another cost and an unusable hash are outdated', async () => {
    assert.equal(passwords.isOutdated(hash), false)
    assert.equal(passwords.isOutdated(hash.replace('$2b$', '$2y$')), false)
    for (const stored of [hash.replace('$06$', '$05$'), hash.replace('$06$', '$07$'), 'garbage']) {
      assert.equal(passwords.isOutdated(stored), true, stored)
    }
  })
})
