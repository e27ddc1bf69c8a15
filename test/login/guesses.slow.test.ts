// How many codes a caller can try that knows the right password, in virtual time through the front door, and what the owner
// of the account notices. Prints a table.
import assert from 'node:assert/strict'
import type { OutgoingHttpHeaders } from 'node:http'
import { after, describe, test } from 'node:test'
import { newUserWithApp, STEP_MS } from '../support/authenticator.ts'
import { eventsOf, own } from '../support/own.ts'
import { IS_FULL } from '../support/proof.ts'
import { loggedBy, PASSWORD } from '../support/service.ts'
import {
  bearer,
  cookie,
  cookieIn,
  DAY_MS,
  DEVICE_COOKIE,
  MINUTE_MS,
  startSessionService,
} from '../support/session-client.ts'

/** A year less a day: then a device is no longer known. */
const DAYS = IS_FULL ? 364 : 10
/** After so many that could not succeed, the caller gives up for the day; on later days sooner. */
const MAX_USELESS = { first: 30, later: 2 }
const WINDOW_MS = 15 * MINUTE_MS
const WINDOWS_PER_DAY = DAY_MS / WINDOW_MS
/** A code is good for three steps, so three of a million are right. */
const RIGHT = 3 / 1_000_000
const BROWSER = { 'Sec-Fetch-Site': 'same-origin' }
/** Of the owner. */
const HOME = '127.7.0.1'

type Device = 'unknown' | 'known'
type Scenario = {
  /** How often the owner logs in, and from where: each day, or not at all. */
  owner: Device | null
  /** The device of the caller that guesses. */
  device: Device
  addresses: number
  /** Patient: one less each day than would keep the owner from an unknown device out, so that its login forgives them. */
  isPatient: boolean
}
type Figures = { firstDay: number; all: number; ownerLetIn: number }

describe('a caller that knows the right password', async () => {
  const service = await own(startSessionService('sqlite'))
  service.stopClock({ after })
  const anyAddress = () => HOME

  async function simulate({ owner, device, addresses, isPatient }: Scenario): Promise<Figures> {
    await service.database.rows('delete from login_throttle')
    const { email, app } = await newUserWithApp(service, anyAddress)
    const browser = async () => {
      service.advance(STEP_MS)
      const answer = await logIn(app.code(), BROWSER, HOME)
      assert.equal(answer.status, 200)
      return cookie(cookieIn(answer, DEVICE_COOKIE), DEVICE_COOKIE)
    }
    const logIn = (otp: string, headers: OutgoingHttpHeaders, from: string) =>
      service.call({ body: { email, password: PASSWORD, otp }, headers, from })
    const owned = await browser()
    const stolen = await browser()
    let attempts = 0
    /** Only a code that is counted could have let the caller in: further ones are refused even if they are right. */
    async function guess(): Promise<'counted' | 'useless' | 'refused'> {
      const before = await guessesOf(email)
      const index = attempts++ % addresses
      const from = `127.8.${Math.floor(index / 250)}.${1 + (index % 250)}`
      const headers = device === 'known' ? stolen : {}
      const { status } = await logIn(app.wrongCode(attempts % 200), headers, from)
      if (status === 429) return 'refused'
      assert.equal(status, 401)
      return (await guessesOf(email)) > before ? 'counted' : 'useless'
    }

    const figures = { firstDay: 0, all: 0, ownerLetIn: 0 }
    const began = service.now().getTime()
    for (let day = 1; day <= DAYS; day++) {
      const isLast = day === DAYS
      const most = isPatient && !isLast ? 9 : Number.POSITIVE_INFINITY
      const maxUseless = day === 1 ? MAX_USELESS.first : MAX_USELESS.later
      let counted = 0
      let useless = 0
      for (let window = 0; window < WINDOWS_PER_DAY; window++) {
        let result: Awaited<ReturnType<typeof guess>> | null = null
        while (counted < most && useless < maxUseless && result !== 'refused') {
          result = await guess()
          if (result === 'counted') counted++
          if (result === 'useless') useless++
        }
        if (result !== 'refused') break
        service.advance(WINDOW_MS)
      }
      if (day === 1) figures.firstDay = counted
      figures.all += counted
      service.advanceTo(began + day * DAY_MS)
      if (!owner) continue
      const headers = owner === 'known' ? owned : {}
      const { status } = await logIn(app.code(), { ...headers, ...BROWSER }, HOME)
      if (status === 200) figures.ownerLetIn++
    }
    return figures
  }

  async function guessesOf(email: string): Promise<number> {
    return (await service.store.users.findByEmail(email))?.failedSecondSteps ?? 0
  }

  const scenarios = [null, 'known', 'unknown'].flatMap(owner =>
    ['unknown', 'known'].flatMap(device =>
      [1, 1_000].flatMap(addresses =>
        // Without logins of the owner nothing is forgiven.
        [false, ...(owner ? [true] : [])].map(
          isPatient => ({ owner, device, addresses, isPatient }) as Scenario,
        ),
      ),
    ),
  )
  const described = ({ owner, device, addresses, isPatient }: Scenario) =>
    [
      `${device} device, ${addresses} address${addresses > 1 ? 'es' : ''}`,
      isPatient ? 'patient' : 'as many as possible',
      owner
        ? `owner daily from ${owner === 'known' ? 'a known' : 'an unknown'} device`
        : 'no owner',
    ].join(', ')

  for (const scenario of scenarios) {
    const { owner, device, isPatient } = scenario
    test(described(scenario), async context => {
      const { firstDay, all, ownerLetIn } = await simulate(scenario)
      const chance = 1 - (1 - RIGHT) ** all
      context.diagnostic(
        `${described(scenario)}: ${firstDay} codes on the first day, ${all} in ${DAYS} days ` +
          `(1 in ${Math.round(1 / chance)} to find one), owner let in ${ownerLetIn} of ${owner ? DAYS : 0} times`,
      )
      const most = device === 'known' ? 100 : 10
      const isForgiven = isPatient && owner !== null
      assert.equal(firstDay, isPatient ? 9 : most)
      // Without a login, a device is known for 180 days.
      const lastDay = DAYS > 180 ? 10 : most
      assert.equal(all, isForgiven ? 9 * (DAYS - 1) + lastDay : most)
      // Guesses from unknown devices never keep out the owner's known device.
      if (owner === 'known' && device === 'unknown') assert.equal(ownerLetIn, DAYS)
    })
  }

  test('from a thousand addresses, as often as the throttle lets it, never keeps out a known device of the owner', async context => {
    await service.database.rows('delete from login_throttle')
    const { email, app } = await newUserWithApp(service, anyAddress)
    const logIn = (otp: string, headers: OutgoingHttpHeaders, from = HOME) =>
      service.call({ body: { email, password: PASSWORD, otp }, headers, from })
    const browser = await logIn(app.code(), BROWSER)
    const owned = { ...BROWSER, ...cookie(cookieIn(browser, DEVICE_COOKIE), DEVICE_COOKIE) }
    let attempts = 0
    const attempt = () => {
      const from = `127.8.${Math.floor((attempts % 1_000) / 250)}.${1 + (attempts % 250)}`
      // Codes, missing codes and wrong passwords.
      const otp = ['', app.wrongCode(attempts % 200)][attempts % 2] ?? ''
      const password = attempts++ % 3 === 0 ? 'wrong' : PASSWORD
      return service.call({ body: { email, password, otp }, from })
    }
    let letIn = 0
    for (let window = 0; window < WINDOWS_PER_DAY; window++) {
      while ((await attempt()).status === 401);
      service.advance(WINDOW_MS / 2)
      const { status } = await logIn(app.code(), owned)
      if (status === 200) letIn++
      service.advance(WINDOW_MS / 2)
    }
    context.diagnostic(`${attempts} attempts in a day; the owner was let in ${letIn} times of 96`)
    assert.equal(letIn, WINDOWS_PER_DAY)
    assert.ok(service.logged().some(({ event }) => event === 'account.password_known'))
  })

  test('from a thousand addresses has at most 198 codes in a day, however often the owner logs in', async context => {
    await service.database.rows('delete from login_throttle')
    const { email, app } = await newUserWithApp(service, anyAddress)
    const logIn = (otp: string, headers: OutgoingHttpHeaders) =>
      service.call({ body: { email, password: PASSWORD, otp }, headers, from: HOME })
    const browser = await logIn(app.code(), BROWSER)
    const owned = { ...BROWSER, ...cookie(cookieIn(browser, DEVICE_COOKIE), DEVICE_COOKIE) }
    let attempts = 0
    let counted = 0
    for (let window = 0; window < WINDOWS_PER_DAY; window++) {
      for (let guesses = 0; guesses < 9; guesses++) {
        const from = `127.8.${Math.floor((attempts % 1_000) / 250)}.${1 + (attempts % 250)}`
        const body = { email, password: PASSWORD, otp: app.wrongCode(attempts++ % 200) }
        const { status } = await service.call({ body, from })
        if (status !== 401) break
        counted++
      }
      service.advance(WINDOW_MS)
      const login = await logIn(app.code(), owned)
      assert.equal(login.status, 200)
    }
    context.diagnostic(`an owner that logs in all the time forgives ${counted} codes in a day`)
    assert.ok(counted <= 198, String(counted))
  })

  test('a program of the owner that sends the password without a code, every minute for a day, raises nothing', async () => {
    const { email, app } = await newUserWithApp(service, anyAddress)
    const lines = await loggedBy(service, async () => {
      for (let minute = 0; minute < 24 * 60; minute++) {
        const { status } = await service.call({ body: { email, password: PASSWORD }, from: HOME })
        assert.ok(status === 401 || status === 429)
        service.advance(MINUTE_MS)
      }
    })
    const events = new Set(eventsOf(lines))
    assert.ok(!events.has('account.password_known'))
    assert.equal(await guessesOf(email), 0)
    service.advance(WINDOW_MS)
    const from = '127.7.0.3'
    const body = { email, password: PASSWORD, otp: app.code() }
    const { status, json } = await service.call({ body, from })
    assert.equal(status, 200)
    const { session } = (await service.get('/session', bearer(json.data.accessToken))).json.data
    assert.equal(session.lastLogin?.guessesSince, 0)
  })
})
