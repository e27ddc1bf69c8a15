import assert from 'node:assert/strict'
import { availableParallelism } from 'node:os'
import { describe, test } from 'node:test'
import { setTimeout } from 'node:timers/promises'
import bcrypt from 'bcrypt'
import { toNumbers } from '../storage/fixtures.ts'
import { inParallel, own } from '../support/own.ts'
import { until } from '../support/process.ts'
import { type Answer, countStatuses, PASSWORD } from '../support/service.ts'
import { cookie, DEVICE_COOKIE, startSessionService } from '../support/session-client.ts'

/** A core makes 14 to 26 hashes per second at this cost: most of a flood gets no hash slot. */
const COST = 10
const LOGIN_TIME_MS = '1500'
const FLOOD = 100 * availableParallelism()
/** Enough to keep all lanes busy, if each of them had priority all the time. */
const ACCOUNTS_OF_ATTACKER = 20 * availableParallelism()
/** The flood comes from this process too, which may stand still for longer than a login may take. */
const MAX_ATTEMPTS = 5

describe('more logins than can be hashed', async () => {
  const env = { BCRYPT_COST: String(COST), LOGIN_TIME_MS }
  const service = await own(startSessionService('sqlite', env))
  const passwordHash = await bcrypt.hash(PASSWORD, COST)
  const emailOf = (i: number) => `user${i}@example.com`
  for (let i = 0; i < FLOOD; i++) await service.addUser(emailOf(i), { passwordHash })

  /** As one of 250 clients. */
  const loginOf = (i: number, password = PASSWORD) =>
    service.login(emailOf(i), password, `127.0.1.${1 + (i % 250)}`)

  test('are shed: without a hash slot they write nothing, and only those that were hashed are counted', async () => {
    const answers = await inParallel(FLOOD, i => loginOf(i, i % 2 === 0 ? PASSWORD : 'wrong'))
    const statuses = countStatuses(answers)
    const { 200: accepted = 0, 401: rejected = 0, 503: shed = 0 } = statuses
    assert.equal(accepted + rejected + shed, FLOOD, JSON.stringify(statuses))
    assert.ok(accepted > 0 && rejected > 0, JSON.stringify(statuses))
    for (const { status, headers, json } of answers) {
      if (status !== 503) continue
      assert.equal(json.error.code, 'SERVICE_UNAVAILABLE')
      assert.equal(headers['retry-after'], '1')
    }
    const reasons = service
      .logged()
      .flatMap(({ event, reason }) => (event === 'login.shed' ? [reason] : []))
    assert.equal(reasons.length, shed)

    const withoutSlot = reasons.filter(reason => reason === 'no-slot').length
    assert.ok(withoutSlot > 0)
    const [stored] = await service.database.rows(
      `select sum(pending) as pending, sum(failures) as failures, count(*) as emails,
        (select sum(failed_login_attempts) from users) as attempts
        from login_throttle where scope = 'email'`,
    )
    const emails = FLOOD - withoutSlot
    const expected = { pending: 0, failures: rejected, emails, attempts: rejected }
    assert.deepEqual(toNumbers(stored), expected)
  })

  /** From an address that the flood does not use, unless another is given. */
  const knownLogin = (email: string, device: string, from = '127.0.0.1') =>
    service.call({
      headers: { 'Sec-Fetch-Site': 'same-origin', ...cookie(device, DEVICE_COOKIE) },
      body: { email, password: PASSWORD },
      from,
    })

  /** As a client should: a login that was shed is repeated after the second that Retry-After asks for. */
  async function repeatShed(login: () => Promise<Answer>): Promise<Answer> {
    for (let attempt = 1; ; attempt++) {
      const answer = await login()
      if (answer.status !== 503 || attempt === MAX_ATTEMPTS) return answer
      await setTimeout(1_000 * Number(answer.headers['retry-after']))
    }
  }

  test('do not keep out other clients, a known device, a refresh or a request for the keys', async () => {
    const owner = await service.newUser()
    const { device, refreshToken } = await service.browserLogin(owner)
    const devices: string[] = []
    for (let i = 0; i < ACCOUNTS_OF_ATTACKER; i++) {
      devices.push((await service.browserLogin(emailOf(i))).device)
    }
    let isOver = false
    let isShed = false
    const repeat = async (attempt: () => Promise<Answer>) => {
      while (!isOver) isShed = (await attempt()).status === 503 || isShed
    }
    const flooding = [
      ...devices.map((own, i) => repeat(() => knownLogin(emailOf(i), own, '127.0.3.1'))),
      inParallel(FLOOD, i => repeat(() => loginOf(i))),
    ]
    await until(async () => isShed)
    const answers = await Promise.all([
      ...Array.from({ length: availableParallelism() }, (_, i) =>
        repeatShed(() => service.login(emailOf(i), PASSWORD, `127.0.4.${1 + i}`)),
      ),
      repeatShed(() => knownLogin(owner, device)),
      service.call({ path: '/api/v1/auth/refresh', body: { refreshToken } }),
      service.call({ method: 'GET', path: '/.well-known/jwks.json' }),
    ])
    isOver = true
    await Promise.all(flooding)
    assert.deepEqual(countStatuses(answers), { 200: answers.length })
  })
})
