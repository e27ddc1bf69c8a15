import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { ENGINES_BY_RUN } from '../support/engines.ts'
import { countHashes } from '../support/hash-counter.ts'
import {
  type Answer,
  countStatuses,
  PASSWORD,
  startTestService,
  type TestService,
} from '../support/service.ts'

const MINUTE_MS = 60_000

for (const engine of ENGINES_BY_RUN) {
  test(`all clients of an IPv6 /48 share one budget; another network has its own, on ${engine}`, async context => {
    const env = { TRUST_PROXY: '127.0.0.1', THROTTLE_NETWORK_FAILURES: '60' }
    const service = await startTestService(engine, env)
    context.after(() => service.stop())
    await service.addUser('kate@example.com')
    const attempt = (ip: string, email: string, password: string) =>
      service.call({
        body: { email, password },
        headers: { 'X-Forwarded-Proto': 'https', 'X-Forwarded-For': ip },
      })
    const answers: Answer[] = []
    for (let batch = 0; batch < 8; batch++) {
      const guesses = Array.from({ length: 10 }, (_, i) =>
        attempt(`2001:db8:7:${batch.toString(16)}${i}::1`, `${batch}-${i}@example.com`, 'wrong'),
      )
      answers.push(...(await Promise.all(guesses)))
    }
    assert.deepEqual(countStatuses(answers), { 401: 60, 429: 20 })
    const kate = (ip: string) => attempt(ip, 'kate@example.com', PASSWORD)
    assert.equal((await kate('2001:db8:7:ffff::1')).status, 429)
    assert.equal((await kate('2001:db8:8::1')).status, 200)
    assert.ok(service.logged().some(line => line.scope === 'network'))
  })
}

for (const engine of ENGINES_BY_RUN) {
  describe(`guessing protection on ${engine}`, () => {
    let service: TestService
    before(async () => {
      service = await startTestService(engine)
    })
    after(() => service.stop())

    let clients = 0
    /** A loopback address that no other test has used. */
    const newClient = () => `127.1.${Math.floor(++clients / 250)}.${(clients % 250) + 1}`

    function atOnce(times: number, attempt: (i: number) => Promise<Answer>): Promise<Answer[]> {
      return Promise.all(Array.from({ length: times }, (_, i) => attempt(i)))
    }

    for (const kind of ['known', 'unknown']) {
      test(`of 100 wrong guesses at once at ${kind === 'known' ? 'a known' : 'an unknown'} email, 5 are hashed`, async () => {
        const email = `${kind}@example.com`
        if (kind === 'known') await service.addUser(email)
        const client = newClient()
        const hashes = await countHashes(async () => {
          const answers = await atOnce(100, i => service.login(email, `guess ${i}`, client))
          assert.deepEqual(countStatuses(answers), { 401: 5, 429: 95 })
        })
        assert.equal(hashes, 5)
      })
    }

    test('the right password among 100 guesses allows at most five more failures', async () => {
      await service.addUser('among@example.com')
      const client = newClient()
      const answers = await atOnce(100, i =>
        service.login('among@example.com', i === 60 ? PASSWORD : `guess ${i}`, client),
      )
      const { 200: right = 0, 401: wrong = 0, 429: refused = 0 } = countStatuses(answers)
      assert.equal(right + wrong + refused, 100)
      assert.ok(wrong <= 5 + right * 5, JSON.stringify({ right, wrong, refused }))
    })

    test('50 right logins at once all succeed', async () => {
      await service.addUser('right@example.com')
      const client = newClient()
      const answers = await atOnce(50, () => service.login('right@example.com', PASSWORD, client))
      assert.deepEqual(countStatuses(answers), { 200: 50 })
    })

    test('a 429 has 900 seconds in its body and the remaining seconds in Retry-After', async t => {
      service.stopClock(t)
      const client = newClient()
      await atOnce(5, () => service.login('wait@example.com', 'wrong', client))
      const first = await service.login('wait@example.com', 'wrong', client)
      assert.equal(first.status, 429)
      assert.deepEqual(first.json, {
        success: false,
        error: {
          code: 'TOO_MANY_ATTEMPTS',
          message: 'Too many login attempts. Please try again in 15 minutes.',
          retryAfter: 900,
        },
      })
      assert.equal(first.headers['retry-after'], '900')
      service.advance(5 * MINUTE_MS)
      const second = await service.login('wait@example.com', 'wrong', client)
      assert.equal(second.json.error.retryAfter, 900)
      const seconds = Number(second.headers['retry-after'])
      assert.ok(seconds > 590 && seconds <= 600, String(seconds))
    })

    test('known and unknown emails get the same answers, before and after they are blocked', async t => {
      service.stopClock(t)
      await service.addUser('alike@example.com')
      const series = async (email: string) => {
        const client = newClient()
        const answers: unknown[] = []
        for (let i = 0; i < 7; i++) {
          const { status, text, headers } = await service.login(email, 'wrong', client)
          answers.push([status, text, headers['retry-after']])
        }
        return answers
      }
      assert.deepEqual(await series('alike@example.com'), await series('absent@example.com'))
    })

    test('a block ends after 15 minutes, is not extended, and one more failure does not start another', async t => {
      service.stopClock(t)
      await service.addUser('ends@example.com')
      const client = newClient()
      const attempt = (password: string) => service.login('ends@example.com', password, client)
      await atOnce(5, () => attempt('wrong'))
      assert.equal((await attempt(PASSWORD)).status, 429, 'the right password is refused too')
      service.advance(14 * MINUTE_MS + 58_000)
      assert.equal((await attempt(PASSWORD)).status, 429)
      service.advance(3_000)
      assert.equal((await attempt('wrong')).status, 401)
      assert.equal((await attempt('wrong')).status, 401)
      assert.equal((await attempt(PASSWORD)).status, 200)
    })

    test('one client cannot keep the user from logging in at another client', async () => {
      await service.addUser('owner@example.com')
      const attacker = newClient()
      await atOnce(30, () => service.login('owner@example.com', 'wrong', attacker))
      assert.equal((await service.login('owner@example.com', PASSWORD, attacker)).status, 429)
      assert.equal((await service.login('owner@example.com', PASSWORD, newClient())).status, 200)
    })

    test('many clients together get 20 guesses at one email, then the user is locked for 15 minutes', async () => {
      await service.addUser('many@example.com')
      const answers = await atOnce(40, i =>
        service.login('many@example.com', `guess ${i}`, newClient()),
      )
      assert.deepEqual(countStatuses(answers), { 401: 20, 429: 20 })
      const user = await service.store.users.findByEmail('many@example.com')
      assert.equal(user?.lockedBy, 'throttle')
      assert.equal(user?.failedLoginAttempts, 20)
      assert.equal((await service.login('many@example.com', PASSWORD, newClient())).status, 429)
      const lockedLines = service.logged().filter(line => line.event === 'account.locked')
      assert.equal(lockedLines.filter(line => line.userId === user?.id).length, 1)
      service.advance(15 * MINUTE_MS + 1_000)
      assert.equal((await service.login('many@example.com', PASSWORD, newClient())).status, 200)
    })

    test('one client gets 50 guesses at many emails, even if it logs in to its own account in between', async () => {
      await service.addUser('own@example.com')
      const client = newClient()
      const answers: Answer[] = []
      for (let i = 0; i < 60; i++) {
        answers.push(await service.login(`target-${i}@example.com`, 'wrong', client))
        if (i % 10 === 0) await service.login('own@example.com', PASSWORD, client)
      }
      assert.deepEqual(countStatuses(answers), { 401: 50, 429: 10 })
    })

    test('spellings of one email share one budget', async () => {
      const client = newClient()
      const spellings = ['Same@Example.com', ' same@example.com', 'SAME@EXAMPLE.COM\t']
      const answers = await atOnce(12, i =>
        service.login(spellings[i % spellings.length], 'wrong', client),
      )
      assert.deepEqual(countStatuses(answers), { 401: 5, 429: 7 })
    })

    test('a throttled attempt costs no hash and adds no row', async () => {
      const client = newClient()
      await atOnce(50, i => service.login(`fill-${i}@example.com`, 'wrong', client))
      const count = async () =>
        (await service.database.rows('select key from login_throttle')).length
      const before = await count()
      const hashes = await countHashes(async () => {
        const answers = await atOnce(100, i => service.login(`more-${i}@example.com`, 'x', client))
        assert.deepEqual(countStatuses(answers), { 429: 100 })
      })
      assert.equal(hashes, 0)
      assert.equal(await count(), before)
    })

    test('the throttle table contains no email and no address', async () => {
      await service.login('secret.person@example.com', 'wrong', newClient())
      const rows = JSON.stringify(await service.database.rows('select * from login_throttle'))
      assert.ok(!rows.includes('@') && !rows.includes('127.'))
    })
  })
}
