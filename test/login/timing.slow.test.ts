// Rejected logins must take the same time for every reason. Kinds of attempts, shuffled in every round, are
// compared by Welch's t-test, as in dudect (Reparaz et al., "Dude, is my code constant time?", 2017).
import assert from 'node:assert/strict'
import { test } from 'node:test'
import bcrypt from 'bcrypt'
import { byEmail, changeAt } from '../storage/fixtures.ts'
import {
  PASSWORD,
  startTestService,
  TEST_COST,
  type TestService,
  UNLIMITED,
} from '../support/service.ts'

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
const WARM_UP_ROUNDS = 100
const CHANGE = '/api/v1/auth/password'
const FORM = {
  'Sec-Fetch-Site': 'same-origin',
  'Content-Type': 'application/x-www-form-urlencoded',
}
const ROUNDS = 300

/** With a new password: a change of it. */
type Attempts = Record<string, [email: string, password: string, newPassword?: string]>

const NEW_PASSWORD = 'seven green boats at noon'

test('the time of a rejected login does not reveal the reason', async context => {
  const service = await startTestService('postgres', UNLIMITED)
  context.after(() => service.stop())
  const accounts = ['wrong', 'overlong', 'inactive', 'ended']
  const ways = ['', 'change-', 'form-']
  for (const account of ways.flatMap(way => accounts.map(account => way + account))) {
    const email = `${account}@example.com`
    await service.addUser(email)
    // Its row has a last login, unlike dummy rows.
    const login = await service.call({
      headers: { 'User-Agent': 'x'.repeat(256) },
      body: { email, password: PASSWORD },
    })
    assert.equal(login.status, 200)
    if (account.endsWith('inactive')) {
      await byEmail(service.store).deactivate(email, changeAt(service.now()))
    }
    if (account.endsWith('ended')) await endTemporaryPassword(service, email)
  }
  // Each kind has its own account: PostgreSQL reads a row more slowly, the more often it has been changed.
  const wrong = 'not the password'
  const attempts: Attempts = {
    wrong: ['wrong@example.com', wrong],
    unknown: ['absent@example.com', wrong],
    inactive: ['inactive@example.com', PASSWORD],
    overlong: ['overlong@example.com', 'x'.repeat(100)],
    ended: ['ended@example.com', PASSWORD],
    changeWrong: ['change-wrong@example.com', wrong, NEW_PASSWORD],
    changeUnknown: ['change-absent@example.com', wrong, NEW_PASSWORD],
    changeInactive: ['change-inactive@example.com', PASSWORD, NEW_PASSWORD],
    changeOverlong: ['change-overlong@example.com', 'x'.repeat(100), NEW_PASSWORD],
    changeEnded: ['change-ended@example.com', PASSWORD, NEW_PASSWORD],
    formWrong: ['form-wrong@example.com', wrong],
    formUnknown: ['form-absent@example.com', wrong],
    formInactive: ['form-inactive@example.com', PASSWORD],
    formOverlong: ['form-overlong@example.com', 'x'.repeat(100)],
    formEnded: ['form-ended@example.com', PASSWORD],
  }
  const findDifferent = async () => {
    const times = await measure(service, ROUNDS, WARM_UP_ROUNDS, attempts)
    return Object.keys(times).flatMap(name => {
      // A change has a longer body, and its new password is judged first; a form is answered with a page. They are
      // compared with each other.
      const [way] = /^(change|form)/.exec(name) ?? []
      const other = way ? `${way}Wrong` : 'wrong'
      if (name === other) return []
      const comparison = compare(times[other] ?? [], times[name] ?? [])
      const figures = `${other} and ${name}: ${JSON.stringify(comparison)}`
      context.diagnostic(figures)
      return isDifferent(comparison) ? [{ name, figures }] : []
    })
  }
  await assertNoneInAll(findDifferent)
})

function isDifferent({ t, tCropped, medianDifferenceMs }: ReturnType<typeof compare>): boolean {
  const differenceMs = Math.abs(medianDifferenceMs)
  return (
    Math.abs(t) >= MAX_T ||
    (Math.abs(tCropped) >= MAX_T && differenceMs >= KNOWN_REMAINDER_MS) ||
    (Math.abs(tCropped) >= CHANCE_T && differenceMs >= MAX_MEDIAN_DIFFERENCE_MS)
  )
}

/** Other load may disturb one measurement; a difference of the work would show in every one. */
async function assertNoneInAll(
  findDifferent: () => Promise<{ name: string; figures: string }[]>,
): Promise<void> {
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
for (const [engine, cost] of [
  ['lanes', 8],
  ['native', 10],
] as const) {
  test(`a stored hash of a lower cost takes the same time, to within two percent, with ${engine}`, async context => {
    const env = { ...UNLIMITED, BCRYPT_COST: String(cost), PASSWORD_ENGINE: engine }
    const service = await startTestService('sqlite', env)
    context.after(() => service.stop())
    await service.addUser('old@example.com', {
      passwordHash: await bcrypt.hash(PASSWORD, cost - 2),
    })
    await service.addUser('new@example.com', { passwordHash: await bcrypt.hash(PASSWORD, cost) })
    const findDifferent = async () => {
      const times = await measure(service, 100, 10, {
        old: ['old@example.com', 'not the password'],
        new: ['new@example.com', 'not the password'],
        unknown: ['absent@example.com', 'not the password'],
      })
      return ['old', 'unknown'].flatMap(name => {
        const comparison = compare(times.new ?? [], times[name] ?? [])
        const figures = `${engine}, cost ${cost} and ${name}: ${JSON.stringify(comparison)}`
        context.diagnostic(figures)
        const t = Math.abs(comparison.tCropped)
        const isSignificant = engine === 'lanes' && t >= MAX_T
        const limitMs = 0.02 * median(times.new ?? [])
        const isSlower = t >= CHANCE_T && Math.abs(comparison.medianDifferenceMs) >= limitMs
        return isSignificant || isSlower ? [{ name, figures }] : []
      })
    }
    await assertNoneInAll(findDifferent)
  })
}

test('the comparison can fail: a hash above the configured cost is detected', async context => {
  const service = await startTestService('sqlite', UNLIMITED)
  context.after(() => service.stop())
  const passwordHash = await bcrypt.hash(PASSWORD, TEST_COST + 1)
  await service.addUser('slow@example.com', { passwordHash })
  const times = await measure(service, 300, WARM_UP_ROUNDS, {
    slow: ['slow@example.com', 'not the password'],
    unknown: ['absent@example.com', 'not the password'],
  })
  const comparison = compare(times.slow ?? [], times.unknown ?? [])
  context.diagnostic(`control: ${JSON.stringify(comparison)}`)
  assert.ok(Math.abs(comparison.tCropped) > MAX_T)
  assert.ok(Math.abs(comparison.medianDifferenceMs) > MAX_MEDIAN_DIFFERENCE_MS)
})

async function endTemporaryPassword(service: TestService, email: string): Promise<void> {
  const hash = await bcrypt.hash(PASSWORD, TEST_COST)
  const user = await service.store.users.findByEmail(email)
  const now = service.now()
  await service.store.users.setPassword(user?.id ?? '', hash, changeAt(now), now)
}

async function measure(
  service: TestService,
  rounds: number,
  warmUpRounds: number,
  attempts: Attempts,
) {
  const names = Object.keys(attempts)
  const times: Record<string, number[]> = Object.fromEntries(names.map(name => [name, []]))
  for (let round = -warmUpRounds; round < rounds; round++) {
    for (const name of shuffled(names)) {
      const [email, password, newPassword] = attempts[name] ?? ['', '']
      const call = name.startsWith('form')
        ? { path: '/login', headers: FORM, body: String(new URLSearchParams({ email, password })) }
        : newPassword === undefined
          ? { body: { email, password } }
          : { path: CHANGE, body: { email, currentPassword: password, newPassword } }
      const started = performance.now()
      const { status } = await service.call(call)
      const elapsedMs = performance.now() - started
      assert.equal(status, 401)
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

function mean(list: number[]): number {
  return list.reduce((sum, value) => sum + value, 0) / list.length
}

function variance(list: number[]): number {
  const center = mean(list)
  return list.reduce((sum, value) => sum + (value - center) ** 2, 0) / (list.length - 1)
}

function median(list: number[]): number {
  return list.toSorted((x, y) => x - y)[Math.floor(list.length / 2)] ?? 0
}

function rounded(value: number): number {
  return Math.round(value * 1000) / 1000
}
