import assert from 'node:assert/strict'
import type { OutgoingHttpHeaders } from 'node:http'
import { availableParallelism } from 'node:os'
import { after, before, describe, test } from 'node:test'
import { setTimeout } from 'node:timers/promises'
import bcrypt from 'bcrypt'
import { until } from '../support/process.ts'
import { type Answer, countStatuses, PASSWORD } from '../support/service.ts'
import {
  cookie,
  DEVICE_COOKIE,
  type SessionService,
  startSessionService,
} from '../support/session-client.ts'

/** A core makes 14 to 26 hashes per second at this cost: most of a flood gets no hash slot. */
const COST = 10
const LOGIN_TIME_MS = '1500'
const FLOOD = 200 * availableParallelism()
/** A client may have 256 connections. */
const MAX_OF_ONE_CLIENT = 200
/** Enough to keep all lanes busy, if each of them had priority all the time. */
const ACCOUNTS_OF_ATTACKER = 100
/** The flood comes from this process too, which may stand still for longer than a login may take. */
const MAX_ATTEMPTS = 5

describe('more logins than can be hashed', () => {
  let service: SessionService
  before(async () => {
    service = await startSessionService('sqlite', {
      BCRYPT_COST: String(COST),
      LOGIN_TIME_MS,
    })
    const passwordHash = await bcrypt.hash(PASSWORD, COST)
    await service.addUser('owner@example.com', { passwordHash })
    for (let i = 0; i < FLOOD; i++) await service.addUser(emailOf(i), { passwordHash })
  })
  after(() => service.stop())

  const emailOf = (i: number) => `user${i}@example.com`
  /** One attempt for each user, spread over 250 clients. */
  const flood = (password = PASSWORD): Promise<Answer[]> =>
    Promise.all(
      Array.from({ length: FLOOD }, (_, i) =>
        service.login(emailOf(i), password, `127.0.1.${1 + (i % 250)}`),
      ),
    )
  const shedLogins = () => service.logged().filter(({ event }) => event === 'login.shed')
  const countShed = () => shedLogins().length
  const failuresAndPending = () =>
    service.database.rows(
      `select coalesce(sum(failures), 0) as failures, coalesce(sum(pending), 0) as pending,
        (select sum(failed_login_attempts) from users) as attempts from login_throttle`,
    )
  const NONE = { failures: 0, pending: 0, attempts: 0 }

  test('are shed: without a hash slot they write nothing, and none is counted or stays pending', async () => {
    const answers = await flood()
    const { 200: accepted = 0, 503: shed = 0 } = countStatuses(answers)
    assert.equal(accepted + shed, FLOOD)
    assert.ok(accepted >= availableParallelism(), `${accepted} accepted`)
    for (const { status, headers, json } of answers) {
      if (status !== 503) continue
      assert.equal(json.error.code, 'SERVICE_UNAVAILABLE')
      assert.equal(headers['retry-after'], '1')
    }
    assert.equal(countShed(), shed)

    const withoutSlot = shedLogins().filter(({ reason }) => reason === 'no-slot').length
    assert.ok(withoutSlot > 0)
    const [reserved] = await service.database.rows(
      "select count(*) as emails from login_throttle where scope = 'email'",
    )
    assert.equal(Number(reserved?.emails), FLOOD - withoutSlot)
    assert.deepEqual(toNumbers(await failuresAndPending()), NONE)
  })

  test('with a wrong password are counted only if they were hashed', async () => {
    const statuses = countStatuses(await flood('wrong'))
    const { 401: rejected = 0, 503: shed = 0 } = statuses
    assert.equal(rejected + shed, FLOOD, JSON.stringify(statuses))
    const [counted] = await service.database.rows(
      'select sum(failed_login_attempts) as attempts from users',
    )
    assert.equal(Number(counted?.attempts), rejected)
  })

  test('of one client do not keep out others', async () => {
    await loginsDuring(Array.from({ length: MAX_OF_ONE_CLIENT }, () => ({})))
  })

  test('of one client with many accounts and known devices do not keep out others', async () => {
    const devices: OutgoingHttpHeaders[] = []
    for (let i = 0; i < ACCOUNTS_OF_ATTACKER; i++) {
      const { device } = await service.browserLogin(emailOf(i))
      devices.push({ 'Sec-Fetch-Site': 'same-origin', ...cookie(device, DEVICE_COOKIE) })
    }
    await loginsDuring(devices)
  })

  /** Strangers log in while one client keeps up an attempt of each of these users, with these headers. */
  async function loginsDuring(attackers: OutgoingHttpHeaders[]): Promise<void> {
    let isOver = false
    let shed = 0
    const repeat = async (headers: OutgoingHttpHeaders, i: number) => {
      const body = { email: emailOf(i), password: PASSWORD }
      while (!isOver) {
        const { status } = await service.call({ from: '127.0.3.1', headers, body })
        if (status === 503) shed++
      }
    }
    const flooding = attackers.map(repeat)
    await until(async () => shed > 0)
    const strangers = await Promise.all(
      Array.from({ length: availableParallelism() }, (_, i) =>
        repeatShed(() => service.login(emailOf(i), PASSWORD, `127.0.4.${1 + i}`)),
      ),
    )
    isOver = true
    await Promise.all(flooding)
    assert.deepEqual(countStatuses(strangers), { 200: strangers.length })
  }

  /** As a client should: a login that was shed is repeated after the second that Retry-After asks for. */
  async function repeatShed(login: () => Promise<Answer>): Promise<Answer> {
    for (let attempt = 1; ; attempt++) {
      const answer = await login()
      if (answer.status !== 503 || attempt === MAX_ATTEMPTS) return answer
      await setTimeout(1_000 * Number(answer.headers['retry-after']))
    }
  }

  test('do not keep out a known device, a refresh or a request for the keys', async () => {
    const { device, refreshToken } = await service.browserLogin('owner@example.com')
    const headers = { 'Sec-Fetch-Site': 'same-origin', ...cookie(device, DEVICE_COOKIE) }
    const body = { email: 'owner@example.com', password: PASSWORD }
    const shedBefore = countShed()
    let isOver = false
    /** Until all are answered; returns how many of each flood were shed. */
    const keepFlooding = async () => {
      const shed: number[] = []
      do shed.push(countStatuses(await flood())[503] ?? 0)
      while (!isOver)
      return shed
    }
    const first = keepFlooding()
    await until(async () => countShed() > shedBefore)
    const second = keepFlooding()
    const [known, refreshed, keys] = await Promise.all([
      repeatShed(() => service.call({ headers, body })),
      service.call({ path: '/api/v1/auth/refresh', body: { refreshToken } }),
      service.call({ method: 'GET', path: '/.well-known/jwks.json' }),
    ])
    isOver = true
    assert.deepEqual([known.status, refreshed.status, keys.status], [200, 200, 200])
    const [strangers = 0] = await second
    assert.ok(strangers > 0)
    await first
  })
})

/** PostgreSQL returns sums as text. */
function toNumbers([row = {}]: Record<string, unknown>[]): Record<string, number> {
  return Object.fromEntries(Object.entries(row).map(([name, value]) => [name, Number(value)]))
}
