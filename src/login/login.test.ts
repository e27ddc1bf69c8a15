import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, describe, test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { changeAt } from '../../test/storage/fixtures.ts'
import { openTestStore } from '../../test/support/engines.ts'
import { makeKeys } from '../../test/support/keys.ts'
import { openHasher } from '../bcrypt/open-hasher.ts'
import { wrapMethods } from '../domain/operations.ts'
import type { Store } from '../domain/store.ts'
import { createHashQueue, type HashQueue, type HashSlot } from '../hashing/hash-queue.ts'
import { createChallenges } from './challenges.ts'
import { createDeviceTokens } from './device.ts'
import { login } from './login.ts'
import { createPace } from './pace.ts'
import { createPasswords } from './passwords.ts'
import { throttleScopes } from './scopes.ts'
import { createThrottle } from './throttle.ts'

const COST = 4
const clock = () => new Date()
const keys = await makeKeys(new Date())
const passwords = createPasswords(COST)
const hasher = await openHasher('lanes', 2, () => {}, assert.fail)
after(() => hasher.close())

const depsOn = (store: Store, throttle = createThrottle(store.attempts, clock)) => ({
  store,
  throttle,
  passwords,
  passwordRules: { minLength: 8, brandName: 'Login' },
  secondFactorRoles: [],
  hashQueue: createHashQueue(hasher, { cost: COST, loginTimeMs: 5_000 }),
  pace: createPace(),
  deviceTokens: createDeviceTokens('00'.repeat(32)),
  passkeys: { rpId: null, origin: null, challenges: createChallenges('00'.repeat(32)) },
  budgets: { pair: 5, email: 20, client: 50, network: 500 },
  maxSessionsPerUser: 100,
  sessionMaxSeconds: 30 * 24 * 3600,
  loginTimeMs: 5_000,
  keys,
  tokens: { issuer: 'https://login.example.com', audience: 'api', accessSeconds: 3600 },
  clock,
})
const attempt = {
  email: 'kate@example.com',
  password: 'wrong',
  client: { ip: '127.0.0.1', group: '127.0.0.1', network: null, userAgent: '', isBrowser: false },
  deviceToken: null,
  sessionCookie: null,
  proof: { otp: '', passkey: null },
}

describe('the database calls of an attempt', async () => {
  const { store } = await openTestStore('sqlite')
  const asked: string[] = []
  const watched = wrapMethods(store, (name, operation) => (...values) => {
    asked.push(name)
    return operation(...values)
  })
  // This clock stands still, so that no cached block expires.
  const deps = depsOn(
    watched,
    createThrottle(watched.attempts, clock, () => 0),
  )
  const made = deps.deviceTokens.make()
  const FORGED: [string, string | null][] = [
    ['no device cookie', null],
    ['one of another key', createDeviceTokens('11'.repeat(32)).make()],
  ]
  for (const [name, deviceToken] of FORGED) {
    test(`with ${name}: it reserves and settles; once it is throttled, it makes no call`, async () => {
      const guess = { ...attempt, email: `${name}@example.com`, deviceToken }
      for (let i = 0; i < 5; i++) {
        asked.length = 0
        assert.equal((await login(deps, guess)).kind, 'rejected')
        assert.deepEqual(asked, [
          ...['attempts.reserve', 'secondFactors.findProofs', 'attempts.fail'],
        ])
      }
      asked.length = 0
      assert.equal((await login(deps, guess)).kind, 'throttled')
      assert.deepEqual(asked, ['attempts.reserve'])
      asked.length = 0
      for (let i = 0; i < 100; i++) assert.equal((await login(deps, guess)).kind, 'throttled')
      assert.deepEqual(asked, [])
      // A genuine token may be of a known device, which has its own budget.
      assert.equal((await login(deps, { ...guess, deviceToken: made })).kind, 'throttled')
      assert.deepEqual(asked, ['devices.find'])
    })
  }
})

test('every attempt is announced to the pace, and every refusal waits for it', async () => {
  const { store } = await openTestStore('sqlite')
  const calls: string[] = []
  const pace = {
    arrive: (client: string) => void calls.push(`arrive ${client}`),
    beforeRefusal: async (client: string) => void calls.push(`refuse ${client}`),
  }
  const deps = { ...depsOn(store), pace }
  for (let i = 0; i < 6; i++) await login(deps, attempt)
  // All addresses of a network have one pace.
  const arrivals = Array<string>(6).fill('arrive 127.0.0.0/24')
  assert.deepEqual(calls, [...arrivals, 'refuse 127.0.0.0/24'])
  await login(deps, { ...attempt, client: { ...attempt.client, network: '2001:db8::/48' } })
  assert.equal(calls.at(-1), 'refuse 2001:db8::/48')

  const email = 'other@example.com'
  const fullQueue: HashQueue = { ...deps.hashQueue, admit: () => null }
  const outcome = await login({ ...deps, hashQueue: fullQueue }, { ...attempt, email })
  assert.deepEqual(outcome, { kind: 'shed', email, reason: 'no-slot' })
  assert.equal(calls.at(-1), 'refuse 127.0.0.0/24')
})

test('an attempt has its whole time for the hash, a change twice as much, and half of it if the database was slow', async () => {
  const { store, change } = await prepareChange()
  const queue = createHashQueue(hasher, { cost: COST, loginTimeMs: 5_000 })
  const turns: { finishByMs: number; nowMs: number }[] = []
  const watched = withRun(queue, (slot, finishByMs, job) => {
    turns.push({ finishByMs, nowMs: performance.now() })
    return slot.run(finishByMs, job)
  })
  const loginTimeMs = 60_000
  const beforeMs = performance.now()
  await login({ ...depsOn(store), hashQueue: watched, loginTimeMs }, change)
  for (const [hashes, { finishByMs, nowMs }] of turns.entries()) {
    assert.ok(finishByMs >= beforeMs + (hashes + 1) * loginTimeMs)
    assert.ok(finishByMs <= nowMs + (hashes + 1) * loginTimeMs)
  }
  assert.equal(turns.length, 2)

  const shortMs = 200
  let reservedMs = 0
  const slowly = wrapMethods(store, (name, operation) => async (...values) => {
    const result = await operation(...values)
    const endMs = performance.now() + shortMs
    while (name === 'attempts.reserve' && performance.now() < endMs) await setImmediate()
    reservedMs = performance.now()
    return result
  })
  const tooLate: HashQueue = {
    ...queue,
    admit: () => ({
      async run(finishByMs) {
        assert.ok(finishByMs >= reservedMs + shortMs / 2)
        assert.ok(finishByMs <= performance.now() + shortMs / 2)
        return null
      },
      release: assert.fail,
    }),
  }
  const deps = { ...depsOn(slowly), hashQueue: tooLate, loginTimeMs: shortMs }
  const outcome = await login(deps, change)
  assert.deepEqual(outcome, { kind: 'shed', email: change.email, reason: 'too-late' })
  const scopes = throttleScopes(change.email, change.client, deps.budgets)
  const states = await store.throttle.read(scopes, new Date())
  assert.ok(states.every(({ pending }) => pending === 0))
})

test('a browser is remembered as a known device, and claims its next hash slot as one', async () => {
  const { store, current } = await prepareChange()
  const deps = depsOn(store)
  const claims: boolean[] = []
  const hashQueue: HashQueue = {
    ...deps.hashQueue,
    admit(claim, finishByMs) {
      claims.push(claim.isKnownDevice)
      return deps.hashQueue.admit(claim, finishByMs)
    },
  }
  const program = await login({ ...deps, hashQueue }, current)
  assert.ok(program.kind === 'signed-in' && program.deviceCookie === null)
  const browser = { ...current, client: { ...current.client, isBrowser: true } }
  const first = await login({ ...deps, hashQueue }, browser)
  assert.ok(first.kind === 'signed-in' && first.deviceCookie !== null && !first.isPasswordChanged)
  const known = { ...browser, deviceToken: first.deviceCookie.value }
  assert.equal((await login({ ...deps, hashQueue }, known)).kind, 'signed-in')
  assert.deepEqual(claims, [false, false, true])
})

test('whatever its outcome, an attempt wakes the one that waits for its scopes', async () => {
  const { store, change, current } = await prepareChange()
  const woken: number[] = []
  const throttle = createThrottle(store.attempts, clock)
  const deps = depsOn(store, {
    ...throttle,
    wake(scopes) {
      woken.push(scopes.length)
      throttle.wake(scopes)
    },
  })
  const kinds = []
  for (const each of [attempt, { ...change, newPassword: 'short' }, current]) {
    const outcome = await login(deps, each)
    kinds.push(outcome.kind)
    if (outcome.kind === 'signed-in') assert.equal(outcome.rehash, null)
  }
  const late = { ...deps.hashQueue, admit: () => ({ run: async () => null, release() {} }) }
  kinds.push((await login({ ...deps, hashQueue: late }, current)).kind)
  assert.deepEqual(kinds, ['rejected', 'unfit-password', 'signed-in', 'shed'])
  assert.deepEqual(woken, [3, 3, 3, 3])
})

/** A user with the password "right", a login with it, and a change of it. */
async function prepareChange() {
  const { store } = await openTestStore('sqlite')
  const email = 'change@example.com'
  const passwordHash = await passwords.hash('right')
  const id = randomUUID()
  const user = { id, email, passwordHash, name: 'Kate', role: 'user', temporaryUntil: null }
  await store.users.insert(user, changeAt(new Date()))
  const scopes = throttleScopes(email, attempt.client, depsOn(store).budgets)
  const current = { ...attempt, email, password: 'right' }
  return {
    store,
    current,
    change: { ...current, newPassword: 'another password' },
    async assertUnchanged() {
      const stored = await store.users.findById(id)
      assert.equal(stored?.passwordHash, passwordHash)
      const states = await store.throttle.read(scopes, new Date())
      assert.ok(states.every(({ pending }) => pending === 0))
      return states.find(({ name }) => name === 'pair')?.failures
    },
  }
}

/** The queue, with another way to use its slots. */
function withRun(
  queue: HashQueue,
  run: (slot: HashSlot, ...job: Parameters<HashSlot['run']>) => ReturnType<HashSlot['run']>,
): HashQueue {
  return {
    ...queue,
    admit(...claim) {
      const slot = queue.admit(...claim)
      return slot && slot !== 'undecided' ? { ...slot, run: (...job) => run(slot, ...job) } : slot
    },
  }
}

test('a change is shed without a second turn of its slot: nothing is changed or counted', async () => {
  const { store, change, assertUnchanged } = await prepareChange()
  let turns = 0
  const onlyFirst = withRun(depsOn(store).hashQueue, async (slot, ...job) =>
    turns++ === 0 ? slot.run(...job) : null,
  )
  await login(depsOn(store), { ...change, password: 'wrong' })
  const outcome = await login({ ...depsOn(store), hashQueue: onlyFirst }, change)
  assert.deepEqual(outcome, { kind: 'shed', email: change.email, reason: 'too-late' })
  assert.equal(await assertUnchanged(), 1)
  assert.equal((await login(depsOn(store), change)).kind, 'signed-in')
})
