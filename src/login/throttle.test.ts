import assert from 'node:assert/strict'
import { beforeEach, describe, test } from 'node:test'
import { changeAt, makeScopes } from '../../test/storage/fixtures.ts'
import { openTestStore } from '../../test/support/engines.ts'
import { inParallel } from '../../test/support/own.ts'
import { throttleScopes } from './scopes.ts'
import { createThrottle, type Throttle } from './throttle.ts'

const MINUTE_MS = 60_000
/** An administrator's unlock takes effect within this time. */
const BLOCK_CACHED_MS = 200
const MAX_WAITING = 256
const [ANN, BEN] = ['ann@example.com', 'ben@example.com']
const BUDGETS = { pair: 2, email: 20, client: 3, network: 500 }

describe('a cached block', async () => {
  const { store } = await openTestStore('sqlite')

  let now = new Date()
  let passedMs = 0
  let throttle: Throttle
  let clients = 0
  let client: string
  beforeEach(() => {
    now = new Date()
    passedMs = 0
    const nowMs = () => passedMs
    throttle = createThrottle(store.attempts, () => now, nowMs)
    client = `10.0.0.${++clients}`
  })

  const scopesOf = (email: string, from = client) =>
    throttleScopes(email, { group: from, network: null }, BUDGETS)
  const reserve = (email: string, from = client) => throttle.reserve(scopesOf(email, from), email)
  const recall = (email: string, from = client) => throttle.recallBlock(scopesOf(email, from), null)
  async function failAs(email: string, times: number): Promise<void> {
    for (let i = 0; i < times; i++) {
      assert.equal((await reserve(email)).kind, 'admitted')
      await store.attempts.fail(scopesOf(email), null, now)
    }
  }
  async function block(email: string) {
    await failAs(email, BUDGETS.pair)
    const refused = await reserve(email)
    assert.equal(refused.kind, 'blocked')
    return refused
  }

  test('is recalled for the scopes that it concerns, and for no others, even beside another one', async () => {
    await failAs(ANN, BUDGETS.pair)
    assert.equal(recall(ANN), null)
    const refused = await reserve(ANN)
    assert.equal(refused.kind, 'blocked')
    const [of, elsewhere] = [client, `10.0.1.${clients}`]
    client = elsewhere
    await block(BEN)
    assert.deepEqual(recall(ANN, of), refused)
    assert.equal(recall(ANN, elsewhere), null)
    assert.equal(recall(BEN, of), null)
  })

  test('that lasts longest is recalled', async () => {
    await block(ANN)
    now = new Date(now.getTime() + MINUTE_MS)
    await failAs(BEN, 1)
    const longest = await reserve('cat@example.com')
    assert.equal(longest.kind === 'blocked' && longest.scope, 'client')
    assert.deepEqual(recall(ANN), longest)
  })

  test('is not recalled after its end, nor by a clock that was set back', async () => {
    await block(ANN)
    assert.ok(throttle.recallBlock(scopesOf(ANN), 'ann'))
    const at = now.getTime()
    for (const minutes of [15, -300]) {
      now = new Date(at + minutes * MINUTE_MS)
      assert.equal(throttle.recallByName('ann', now), null)
      assert.equal(recall(ANN), null)
    }
  })

  test('is recalled by the name of an attempt too, once it was recalled for the attempt', async () => {
    const refused = await block(ANN)
    const byName = (name: string | null) => throttle.recallByName(name, now)
    assert.equal(byName('ann'), null)
    assert.deepEqual(recall(ANN), refused)
    assert.equal(byName(null), null, 'attempts without a name have different scopes')
    assert.deepEqual(throttle.recallBlock(scopesOf(ANN), 'ann'), refused)
    assert.deepEqual(byName('ann'), refused)
    assert.equal(byName('ben'), null)
  })

  test('is checked again by one attempt after half its time, and dropped after its whole time', async () => {
    await block(ANN)
    /** By the name, then by the scopes. */
    const areRecalled = () => [
      throttle.recallByName('ann', now) !== null,
      throttle.recallBlock(scopesOf(ANN), 'ann') !== null,
    ]
    assert.ok(throttle.recallBlock(scopesOf(ANN), 'ann'))
    passedMs = BLOCK_CACHED_MS / 2 - 1
    assert.deepEqual(areRecalled(), [true, true])
    passedMs = BLOCK_CACHED_MS / 2
    assert.deepEqual(areRecalled(), [false, false])
    assert.deepEqual(areRecalled(), [true, true], 'only one attempt checks')
    passedMs = BLOCK_CACHED_MS - 1
    assert.deepEqual(areRecalled(), [true, true])
    passedMs = BLOCK_CACHED_MS
    for (let i = 0; i < 2; i++) assert.deepEqual(areRecalled(), [false, false])
    await reserve(ANN)
    assert.ok(recall(ANN))
    await store.throttle.clearOfEmail(ANN, changeAt(now))
    assert.equal((await reserve(ANN)).kind, 'admitted')
    assert.equal(recall(ANN), null)
  })

  test('is not recalled by name after the store was asked about any scope', async () => {
    const refused = await block(ANN)
    assert.ok(throttle.recallBlock(scopesOf(ANN), 'ann'))
    assert.equal((await reserve(BEN, '10.9.9.8')).kind, 'admitted')
    assert.equal(throttle.recallByName('ann', now), null)
    assert.deepEqual(throttle.recallBlock(scopesOf(ANN), 'ann'), refused, 'it is still cached')
    await reserve(ANN)
    assert.equal(throttle.recallByName('ann', now), null)
  })

  test('is as old as its question to the store, even if the answer comes late', async () => {
    await failAs(ANN, BUDGETS.pair)
    const asking = reserve(ANN)
    passedMs = BLOCK_CACHED_MS
    assert.equal((await asking).kind, 'blocked')
    assert.equal(recall(ANN), null)
  })
})

describe('an attempt that waits', async () => {
  const { store } = await openTestStore('sqlite')
  const throttle = createThrottle(store.attempts, () => new Date())
  const wait = (key: string, ms = MINUTE_MS, isFirst = false) =>
    throttle.waitForScope(key, performance.now() + ms, isFirst)
  const countTimers = () =>
    process.getActiveResourcesInfo().filter(resource => resource === 'Timeout').length

  test('is woken in the order of arrival; a woken one can wait again as the first', async () => {
    const served: string[] = []
    const queue = (name: string, isFirst = false) =>
      wait('a queue', MINUTE_MS, isFirst).then(isWoken => isWoken && served.push(name))
    const waits = [queue('ann'), queue('ben')]
    throttle.wakeNext('a queue')
    await waits[0]
    waits.push(queue('ann again', true), queue('cat'))
    for (let i = 0; i < 3; i++) {
      await new Promise(setImmediate)
      throttle.wakeNext('a queue')
    }
    await Promise.all(waits)
    assert.deepEqual(served, ['ann', 'ann again', 'ben', 'cat'])
    assert.equal(throttle.countWaiting('a queue'), 0)
  })

  test('is told so when its time is over, at once if it was over before', async () => {
    assert.equal(await wait('late', -1), false)
    assert.equal(await wait('late', 5), false)
    assert.equal(throttle.countWaiting('late'), 0)
  })

  test('leaves no timer behind, and its deadline does not concern those that come later', async () => {
    const before = countTimers()
    const first = wait('a key', 20)
    throttle.wakeNext('a key')
    assert.equal(await first, true)
    assert.equal(countTimers(), before)
    const second = wait('a key')
    await wait('the deadline of the first', 40)
    throttle.wakeNext('a key')
    assert.equal(await second, true)
  })

  test('is woken from time to time to ask again, in each new queue of its scope', async () => {
    for (let i = 0; i < 2; i++) assert.equal(await wait('polled'), true)
  })

  test('is woken at once when an attempt in its scope ends', async () => {
    const scopes = makeScopes()
    const waits = scopes.map(({ key }) => wait(key))
    throttle.wake(scopes)
    for (const { key } of scopes) assert.equal(throttle.countWaiting(key), 0)
    assert.deepEqual(await Promise.all(waits), [true, true, true])
  })

  test(`finds at most ${MAX_WAITING - 1} others, else it is refused at once`, async () => {
    const waits = inParallel(MAX_WAITING, () => wait('full'))
    const refused = wait('full')
    assert.equal(throttle.countWaiting('full'), MAX_WAITING)
    assert.equal(await refused, false)
    for (let i = 0; i < MAX_WAITING; i++) throttle.wakeNext('full')
    assert.deepEqual(new Set(await waits), new Set([true]))
  })
})
