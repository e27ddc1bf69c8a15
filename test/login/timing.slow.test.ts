// Rejected logins must take the same time for every reason. Kinds of attempts, shuffled in every round, are
// compared by Welch's t-test, as in dudect (Reparaz et al., "Dude, is my code constant time?", 2017).
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { after, test } from 'node:test'
import bcrypt from 'bcrypt'
import { wrapMethods } from '../../src/domain/operations.ts'
import type { Store } from '../../src/domain/store.ts'
import { byEmail, changeAt } from '../storage/fixtures.ts'
import { ENGINES } from '../support/engines.ts'
import { own } from '../support/own.ts'
import { IS_FULL } from '../support/proof.ts'
import { createRawClient } from '../support/raw-connection.ts'
import { createRefused } from '../support/refused.ts'
import {
  type Call,
  LOGIN,
  PASSWORD,
  startTestService,
  TEST_COST,
  type TestService,
  UNLIMITED,
} from '../support/service.ts'
import { cookie, cookieIn, DEVICE_COOKIE } from '../support/session-client.ts'

/** By the convention of the method, a difference of two means below this is noise. */
const MAX_T = 4.5
const MAX_MEDIAN_DIFFERENCE_MS = 0.2
/** Below this, a median that differs says only that the machine is busy. */
const CHANCE_T = 2
/**
 * On an idle machine, without a network, many rounds may recognise a known remainder on PostgreSQL: an unknown email
 * takes 0.02 to 0.05 ms longer (SECURITY.md). A significant difference must not be larger than this.
 */
const KNOWN_REMAINDER_MS = 0.08
const ROUNDS = IS_FULL ? 300 : 150
const WARM_UP_ROUNDS = 50
/** Where a round has a request of each of many kinds. */
const WARM_UP_ROUNDS_OF_MANY = 15
const CONTROL_WRITES = IS_FULL ? 1 : 10
/** Refusals take less time, so that a smaller difference can be measured. */
const REFUSAL_ROUNDS = IS_FULL ? 12_000 : 3_000
const REFUSAL_REMAINDER_MS = 0.002
const MANY_USERS = 100_000
/** Of a hash that takes longer than the rest of a login. */
const HASH_ROUNDS = IS_FULL ? 100 : 40
const FORM = {
  'Sec-Fetch-Site': 'same-origin',
  'Content-Type': 'application/x-www-form-urlencoded',
}
const NEW_PASSWORD = 'seven green boats at noon'

/** A change has a longer body, and its new password is judged first; a form is answered with a page. */
const WAYS: Record<string, (email: string, password: string) => Call> = {
  login: (email, password) => ({ body: { email, password } }),
  change: (email, currentPassword) => ({
    path: '/api/v1/auth/password',
    body: { email, currentPassword, newPassword: NEW_PASSWORD },
  }),
  form: (email, password) => ({
    path: '/login',
    headers: FORM,
    body: String(new URLSearchParams({ email, password })),
  }),
}
const WRONG = 'not the password'
const OTHER_PASSWORDS: Record<string, string> = {
  unknown: WRONG,
  inactive: PASSWORD,
  overlong: 'x'.repeat(100),
  ended: PASSWORD,
}

test('the time of a rejected login does not reveal the reason; a hash above the configured cost is detected', async context => {
  const service = await own(startTestService('postgres', UNLIMITED))
  const attempts: Record<string, Call> = {}
  for (const [way, toCall] of Object.entries(WAYS)) {
    for (const [kind, password] of Object.entries({ wrong: WRONG, ...OTHER_PASSWORDS })) {
      // Each kind has its own account: PostgreSQL reads a row more slowly, the more often it has been changed.
      const email = `${way}-${kind}@example.com`
      if (kind !== 'unknown') await addUser(service, email, kind)
      attempts[`${way} ${kind}`] = toCall(email, password)
    }
  }
  const passwordHash = await bcrypt.hash(PASSWORD, TEST_COST + 2)
  await service.addUser('slow@example.com', { passwordHash })
  attempts.slow = { body: { email: 'slow@example.com', password: WRONG } }

  await assertAlike(async () => {
    const times = await measure(service, ROUNDS, WARM_UP_ROUNDS_OF_MANY, attempts)
    const compareWith = (wrong: string, name: string) => {
      const comparison = compare(times[wrong] ?? [], times[name] ?? [])
      const figures = `${wrong} and ${name}: ${JSON.stringify(comparison)}`
      context.diagnostic(figures)
      return { name, figures, isDifferent: isDifferent(comparison) }
    }
    const control = compareWith('login wrong', 'slow')
    assert.ok(control.isDifferent, control.figures)
    return Object.keys(WAYS).flatMap(way =>
      Object.keys(OTHER_PASSWORDS).map(kind => compareWith(`${way} wrong`, `${way} ${kind}`)),
    )
  })
})

for (const engine of ENGINES) {
  test(`with the device cookie of another account, the time does not reveal an email, on ${engine}`, async context => {
    const free = await own(startTestService(engine, UNLIMITED))
    const blocking = await own(
      startTestService(engine, { ...UNLIMITED, THROTTLE_CLIENT_FAILURES: '1' }),
    )
    for (const [service, status, rounds, remainderMs] of [
      [free, 401, ROUNDS, KNOWN_REMAINDER_MS],
      [blocking, 429, REFUSAL_ROUNDS, REFUSAL_REMAINDER_MS],
    ] as const) {
      const call = await callOnSocket(service)
      await service.database.rows(`insert into users (email, password_hash, name)
        with recursive n(i) as (select 1 union all select i + 1 from n where i < ${MANY_USERS})
        select 'user' || i || '@example.com', 'a hash', 'User' from n`)
      await service.addUser('other@example.com')
      const login = await service.call({
        headers: { 'Sec-Fetch-Site': 'same-origin' },
        body: { email: 'other@example.com', password: PASSWORD },
      })
      const headers = cookie(cookieIn(login, DEVICE_COOKIE), DEVICE_COOKIE)
      /** Another email each time, so that its pages are not in the cache of the database. */
      const guess = (domain: string) => ({
        headers,
        get body() {
          const email = `user${Math.ceil(Math.random() * MANY_USERS)}@${domain}`
          return { email, password: WRONG }
        },
      })
      const attempts = { known: guess('example.com'), unknown: guess('example.con') }
      if (status === 429) await call(attempts.known)
      await assertAlike(async () => {
        const times = await measure({ call }, rounds, WARM_UP_ROUNDS, attempts, status)
        const comparison = compare(times.known ?? [], times.unknown ?? [])
        const figures = `${engine}, ${status}: ${JSON.stringify(comparison)}`
        context.diagnostic(figures)
        return [{ name: engine, figures, isDifferent: isDifferent(comparison, remainderMs) }]
      })
    }
  })
}

for (const engine of ENGINES) {
  test(`the time does not reveal whether a password is right, or how many second factors there are, on ${engine}`, async context => {
    /** The control: its failures take more writes. A single one is noticed on an idle machine only. */
    let slowId: string | null = null
    const slower = (store: Store) =>
      wrapMethods(store, (name, operation) => async (...values) => {
        if (name === 'attempts.fail' && values[1] === slowId) {
          for (let i = 0; i < CONTROL_WRITES; i++) {
            await store.maintenance.checkWritable(new Date())
          }
        }
        return operation(...values)
      })
    const service = await own(startTestService(engine, UNLIMITED, null, undefined, slower))
    const refused = await createRefused(service, () => '127.0.0.2')
    slowId = await service.addUser('slow@example.com')
    const control = 'control, more writes'
    refused.push({
      ...{ name: control, reason: 'wrong-password', email: 'slow@example.com', password: WRONG },
      ...{ like: 'without, wrong password', proof: () => ({ otp: '' }) },
    })
    const call = await callOnSocket(service)
    const attempts = Object.fromEntries(
      refused.map(({ name, email, password, proof }) => [
        name,
        {
          // A code is that of the moment.
          get body() {
            return { email, password, ...proof() }
          },
        },
      ]),
    )
    await assertAlike(async () => {
      const times = await measure({ call }, ROUNDS, WARM_UP_ROUNDS_OF_MANY, attempts)
      return refused.map(({ name, like }) => {
        const list = times[name] ?? []
        const comparison = compare(times[like] ?? [], list)
        const medianMs = rounded(median(list))
        const figures = `${engine}, ${name}: ${JSON.stringify({ ...comparison, medianMs })}`
        context.diagnostic(figures)
        // The control must differ: if it does not, the measurement is repeated, as for a difference.
        return { name, figures, isDifferent: isDifferent(comparison) === (name !== control) }
      })
    })
  })
}

/** Its row has a last login, unlike dummy rows. */
async function addUser(service: TestService, email: string, kind: string): Promise<void> {
  const id = await service.addUser(email)
  const headers = { 'User-Agent': 'x'.repeat(256) }
  const login = await service.call({ headers, body: { email, password: PASSWORD } })
  assert.equal(login.status, 200)
  const now = service.now()
  if (kind === 'inactive') await byEmail(service.store).deactivate(email, changeAt(now))
  if (kind === 'ended') {
    const hash = await bcrypt.hash(PASSWORD, TEST_COST)
    await service.store.users.setPassword(id, hash, changeAt(now), now)
  }
}

function isDifferent(
  { t, tCropped, medianDifferenceMs }: ReturnType<typeof compare>,
  remainderMs = KNOWN_REMAINDER_MS,
): boolean {
  const differenceMs = Math.abs(medianDifferenceMs)
  return (
    Math.abs(t) >= MAX_T ||
    (Math.abs(tCropped) >= MAX_T && differenceMs >= remainderMs) ||
    (Math.abs(tCropped) >= CHANCE_T && differenceMs >= MAX_MEDIAN_DIFFERENCE_MS)
  )
}

/** Other load may disturb one measurement; a difference of the work would show in every one. */
async function assertAlike(
  measureAll: () => Promise<{ name: string; figures: string; isDifferent: boolean }[]>,
): Promise<void> {
  const findDifferent = async () => (await measureAll()).filter(it => it.isDifferent)
  let different = await findDifferent()
  for (let measurements = 1; different.length > 0 && measurements < 3; measurements++) {
    const again = await findDifferent()
    different = again.filter(({ name }) => different.some(before => before.name === name))
  }
  assert.deepEqual(
    different.map(({ figures }) => figures),
    [],
  )
}

// With `native` each missing step is one more decoy, whose start in a thread takes 0.2 ms, so the cost is a realistic one.
for (const [engine, cost] of Object.entries({ lanes: 8, native: 10 })) {
  test(`a stored hash of a lower cost takes the same time, to within two percent, with ${engine}`, async context => {
    const env = { ...UNLIMITED, BCRYPT_COST: String(cost), PASSWORD_ENGINE: engine }
    const service = await own(startTestService('sqlite', env))
    const attempts: Record<string, Call> = {}
    for (const [name, ownCost] of Object.entries({ old: cost - 2, new: cost })) {
      const email = `${name}@example.com`
      await service.addUser(email, { passwordHash: await bcrypt.hash(PASSWORD, ownCost) })
      attempts[name] = { body: { email, password: WRONG } }
    }
    await assertAlike(async () => {
      const times = await measure(service, HASH_ROUNDS, 10, attempts)
      const comparison = compare(times.new ?? [], times.old ?? [])
      const figures = `${engine}, cost ${cost}: ${JSON.stringify(comparison)}`
      context.diagnostic(figures)
      const t = Math.abs(comparison.tCropped)
      const isSignificant = engine === 'lanes' && t >= MAX_T
      const limitMs = 0.02 * median(times.new ?? [])
      const isSlower = t >= CHANCE_T && Math.abs(comparison.medianDifferenceMs) >= limitMs
      return [{ name: 'old', figures, isDifferent: isSignificant || isSlower }]
    })
  })
}

/** One kept connection, whose own work takes less time and varies less than that of an HTTP client. */
async function callOnSocket(service: TestService) {
  const socket = await (await createRawClient(service)).open()
  after(() => socket.destroy())
  return async ({ headers, body }: Call) => {
    const json = JSON.stringify(body)
    const lines = Object.entries({ ...headers, 'Content-Length': json.length })
    const fields = lines.map(([name, value]) => `${name}: ${value}\r\n`).join('')
    const answered = once(socket, 'data')
    socket.write(
      `POST ${LOGIN} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n${fields}\r\n${json}`,
    )
    return { status: Number(String((await answered)[0]).split(' ')[1]) }
  }
}

async function measure(
  { call: send }: { call: (call: Call) => Promise<{ status: number }> },
  rounds: number,
  warmUpRounds: number,
  attempts: Record<string, Call>,
  expectedStatus = 401,
) {
  const names = Object.keys(attempts)
  const times: Record<string, number[]> = Object.fromEntries(names.map(name => [name, []]))
  for (let round = -warmUpRounds; round < rounds; round++) {
    for (const [name, call] of shuffled(Object.entries(attempts))) {
      // What makes a body is not measured.
      const made = { ...call }
      const started = performance.now()
      const { status } = await send(made)
      const elapsedMs = performance.now() - started
      assert.equal(status, expectedStatus)
      if (round >= 0) times[name]?.push(elapsedMs)
    }
  }
  return times
}

function shuffled<T>(list: T[]): T[] {
  return list
    .map(item => ({ item, order: Math.random() }))
    .toSorted((a, b) => a.order - b.order)
    .map(({ item }) => item)
}

/**
 * Both lists have a time of each round. `tCropped` leaves out the slowest tenth of both together, which is mostly noise
 * of the machine. The median is that of the differences within a round, whose attempts meet about the same load.
 */
function compare(a: number[], b: number[]) {
  const all = [...a, ...b].toSorted((x, y) => x - y)
  const limit = all[Math.floor(all.length * 0.9)] ?? 0
  const cropped = (list: number[]) => list.filter(ms => ms <= limit)
  return {
    t: rounded(welch(a, b)),
    tCropped: rounded(welch(cropped(a), cropped(b))),
    medianDifferenceMs: rounded(median(a.map((ms, round) => ms - (b[round] ?? 0)))),
  }
}

function welch(a: number[], b: number[]): number {
  return (mean(a) - mean(b)) / Math.sqrt(variance(a) / a.length + variance(b) / b.length)
}

const mean = (list: number[]) => list.reduce((sum, value) => sum + value, 0) / list.length

function variance(list: number[]): number {
  const center = mean(list)
  return list.reduce((sum, value) => sum + (value - center) ** 2, 0) / (list.length - 1)
}

const median = (list: number[]) => list.toSorted((x, y) => x - y)[Math.floor(list.length / 2)] ?? 0

const rounded = (value: number) => Math.round(value * 1000) / 1000
