import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import bcrypt from 'bcrypt'
import { ENGINES_BY_RUN } from '../support/engines.ts'
import { countHashes } from '../support/hash-counter.ts'
import { inParallel, own } from '../support/own.ts'
import {
  countStatuses,
  createAddresses,
  PASSWORD,
  startTestService,
  TEST_COST,
} from '../support/service.ts'
import { AUTH, MINUTE_MS, SECOND_MS } from '../support/session-client.ts'

for (const engine of ENGINES_BY_RUN) {
  describe(`guessing protection on ${engine}`, async () => {
    const service = await own(startTestService(engine))
    const newClient = createAddresses()
    const change = (email: unknown, currentPassword: string, from: string) =>
      service.call({
        path: `${AUTH}/password`,
        body: { email, currentPassword, newPassword: 'seven green boats at noon' },
        from,
      })

    for (const kind of ['a known', 'an unknown']) {
      test(`of 100 wrong guesses at once at ${kind} email, by logins and changes, however it is spelt, 5 are hashed`, async () => {
        const email = kind === 'a known' ? await service.newUser() : 'unknown@example.com'
        const spellings = [email, ` ${email}`, `${email.toUpperCase()}\t`]
        const client = newClient()
        const hashes = await countHashes(async () => {
          const answers = await inParallel(100, i => {
            const [typed, guess] = [spellings[i % 3], `guess ${i}`]
            return i % 2 === 0 ? service.login(typed, guess, client) : change(typed, guess, client)
          })
          assert.deepEqual(countStatuses(answers), { 401: 5, 429: 95 })
        })
        assert.equal(hashes, 5)
        const right = kind === 'a known' ? 200 : 401
        for (const attempt of [service.login, change]) {
          assert.equal((await attempt(email, PASSWORD, client)).status, 429)
          assert.equal((await attempt(email, PASSWORD, newClient())).status, right)
        }
      })
    }

    test('the right password among 100 guesses allows at most five more failures', async () => {
      const email = await service.newUser()
      const client = newClient()
      const answers = await inParallel(100, i =>
        service.login(email, i === 60 ? PASSWORD : `guess ${i}`, client),
      )
      const { 200: right = 0, 401: wrong = 0, 429: refused = 0 } = countStatuses(answers)
      assert.equal(right + wrong + refused, 100)
      assert.ok(wrong <= 5 + right * 5, JSON.stringify({ right, wrong, refused }))
    })

    test('50 right logins at once all succeed, while the hash is replaced too', async () => {
      const passwordHash = await bcrypt.hash(PASSWORD, TEST_COST + 1)
      await service.addUser('right@example.com', { passwordHash })
      const client = newClient()
      const answers = await inParallel(50, () =>
        service.login('right@example.com', PASSWORD, client),
      )
      assert.deepEqual(countStatuses(answers), { 200: 50 })
    })

    test('a block ends after 15 minutes, is not extended, and one more failure does not start another', async t => {
      service.stopClock(t)
      const email = await service.newUser()
      const client = newClient()
      const attempt = (password: string) => service.login(email, password, client)
      await inParallel(5, () => attempt('wrong'))
      let left = 15 * MINUTE_MS
      for (const passed of [0, 5 * MINUTE_MS, 9 * MINUTE_MS + 59 * SECOND_MS]) {
        service.advance(passed)
        left -= passed
        const { status, json, headers } = await attempt(PASSWORD)
        assert.equal(status, 429, 'the right password is refused too')
        assert.deepEqual(json, {
          success: false,
          error: {
            code: 'TOO_MANY_ATTEMPTS',
            message: 'Too many login attempts. Please try again in 15 minutes.',
            retryAfter: 900,
          },
        })
        assert.equal(headers['retry-after'], String(left / SECOND_MS))
      }
      service.advance(left)
      assert.equal((await attempt('wrong')).status, 401)
      assert.equal((await attempt('wrong')).status, 401)
      assert.equal((await attempt(PASSWORD)).status, 200)
    })

    test('known and unknown emails get the same answers, before and after they are blocked', async t => {
      service.stopClock(t)
      const series = async (email: string) => {
        const client = newClient()
        const answers: unknown[] = []
        for (let i = 0; i < 7; i++) {
          const { status, text, headers } = await service.login(email, 'wrong', client)
          answers.push([status, text, headers['retry-after']])
        }
        return answers
      }
      assert.deepEqual(await series(await service.newUser()), await series('absent@example.com'))
    })

    test('many clients together get 20 guesses at one email, then the user is locked for 15 minutes', async () => {
      const email = await service.newUser()
      const answers = await inParallel(40, i => service.login(email, `guess ${i}`, newClient()))
      assert.deepEqual(countStatuses(answers), { 401: 20, 429: 20 })
      const user = await service.store.users.findByEmail(email)
      assert.equal(user?.lockedBy, 'throttle')
      assert.equal(user?.failedLoginAttempts, 20)
      assert.equal((await service.login(email, PASSWORD, newClient())).status, 429)
      const lines = service
        .logged()
        .filter(({ event, userId }) => event === 'account.locked' && userId === user?.id)
      assert.equal(lines.length, 1)
      service.advance(15 * MINUTE_MS + SECOND_MS)
      assert.equal((await service.login(email, PASSWORD, newClient())).status, 200)
    })

    test('one client gets 50 guesses at many emails, whatever else it does; more cost no hash and add no row', async () => {
      const account = await service.newUser()
      const client = newClient()
      for (let i = 0; i < 50; i++) {
        assert.equal((await service.login(`first-${i}@example.com`, 'x', client)).status, 401)
        if (i % 10 === 0) assert.equal((await service.login(account, PASSWORD, client)).status, 200)
      }
      const rows = () => service.database.rows('select key from login_throttle order by key')
      const before = await rows()
      const hashes = await countHashes(async () => {
        const answers = await inParallel(100, i =>
          service.login(`more-${i}@example.com`, 'x', client),
        )
        assert.deepEqual(countStatuses(answers), { 429: 100 })
      })
      assert.equal(hashes, 0)
      assert.deepEqual(await rows(), before)
    })

    test('the throttle table contains no email and no address', async () => {
      const rows = JSON.stringify(await service.database.rows('select * from login_throttle'))
      assert.match(rows, /"email"/)
      assert.ok(!rows.includes('@') && !rows.includes('127.'))
    })
  })
}
