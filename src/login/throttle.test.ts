import assert from 'node:assert/strict'
import { beforeEach, describe, test } from 'node:test'
import { changeAt, makeScopes } from '../../test/storage/fixtures.ts'
import { openTestStore } from '../../test/support/engines.ts'
import { throttleScopes } from './scopes.ts'
import { createThrottle, type Throttle } from './throttle.ts'

const MINUTE_MS = 60_000
/** An administrator's unlock takes effect within this time. */
const BLOCK_CACHED_MS = 200
const MAX_WAITING = 256
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
    throttle = createThrottle(
      store.attempts,
      () => now,
      () => passedMs,
    )
    client = `10.0.0.${++clients}`
  })

  const scopesOf = (email: string, from = client) =>
    throttleScopes(email, { group: from, network: null }, BUDGETS)
  async function failAs(email: string, times: number): Promise<void> {
    for (let i = 0; i < times; i++) {
      assert.equal((await throttle.reserve(scopesOf(email), email)).kind, 'admitted')
      await store.attempts.fail(scopesOf(email), null, now)
    }
  }

  test('is recalled for the scopes that it concerns, and for no others', async () => {
    await failAs('ann@example.com', 2)
    assert.equal(throttle.recallBlock(scopesOf('ann@example.com'), null), null)
    const refused = await throttle.reserve(scopesOf('ann@example.com'), 'ann@example.com')
    assert.equal(refused.kind, 'blocked')
    assert.deepEqual(throttle.recallBlock(scopesOf('ann@example.com'), null), refused)
    assert.equal(throttle.recallBlock(scopesOf('ann@example.com', '10.9.9.9'), null), null)
    assert.equal(throttle.recallBlock(scopesOf('ben@example.com'), null), null)
  })

  test('of a client is recalled for every email', async () => {
    await failAs('ann@example.com', 1)
    await failAs('ben@example.com', 2)
    await throttle.reserve(scopesOf('cat@example.com'), 'cat@example.com')
    assert.equal(throttle.recallBlock(scopesOf('dan@example.com'), null)?.scope, 'client')
  })

  test('that lasts longest is recalled', async () => {
    await failAs('ann@example.com', 2)
    await throttle.reserve(scopesOf('ann@example.com'), 'ann@example.com')
    now = new Date(now.getTime() + MINUTE_MS)
    await failAs('ben@example.com', 1)
    const longest = await throttle.reserve(scopesOf('cat@example.com'), 'cat@example.com')
    assert.deepEqual(throttle.recallBlock(scopesOf('ann@example.com'), null), longest)
  })

  test('is not recalled after its end, nor by a clock that was set back', async () => {
    await failAs('ann@example.com', 2)
    await throttle.reserve(scopesOf('ann@example.com'), 'ann@example.com')
    const at = now.getTime()
    for (const minutes of [15, -300]) {
      now = new Date(at + minutes * MINUTE_MS)
      assert.equal(throttle.recallBlock(scopesOf('ann@example.com'), null), null)
    }
  })

  test('is kept when another one is remembered', async () => {
    for (const email of ['ann@example.com', 'ben@example.com']) {
      client = `10.1.0.${++clients}`
      await failAs(email, 2)
      await throttle.reserve(scopesOf(email), email)
    }
    assert.ok(throttle.recallBlock(scopesOf('ann@example.com', `10.1.0.${clients - 1}`), null))
  })

  test('is checked again by one attempt after half its time, and dropped after its whole time', async () => {
    const ann = scopesOf('ann@example.com')
    await failAs('ann@example.com', 2)
    await throttle.reserve(ann, 'ann@example.com')
    passedMs = BLOCK_CACHED_MS / 2 - 1
    assert.ok(throttle.recallBlock(ann, null))
    passedMs = BLOCK_CACHED_MS / 2
    assert.equal(throttle.recallBlock(ann, null), null)
    assert.ok(throttle.recallBlock(ann, null), 'only one attempt checks')
    passedMs = BLOCK_CACHED_MS - 1
    assert.ok(throttle.recallBlock(ann, null))
    passedMs = BLOCK_CACHED_MS
    for (let i = 0; i < 2; i++) assert.equal(throttle.recallBlock(ann, null), null)
    await throttle.reserve(ann, 'ann@example.com')
    assert.ok(throttle.recallBlock(ann, null))
    await store.throttle.clearOfEmail('ann@example.com', changeAt(now))
    assert.equal((await throttle.reserve(ann, 'x')).kind, 'admitted')
    assert.equal(throttle.recallBlock(ann, null), null)
  })

  test('is recalled by the name of an attempt for as long as by its scopes', async () => {
    const ann = scopesOf('ann@example.com')
    await failAs('ann@example.com', 2)
    const refused = await throttle.reserve(ann, 'ann@example.com')
    assert.equal(throttle.recallByName('ann', now), null, 'the name is not known yet')
    assert.deepEqual(throttle.recallBlock(ann, null), refused)
    assert.equal(
      throttle.recallByName(null, now),
      null,
      'attempts without a name have different scopes',
    )
    assert.deepEqual(throttle.recallBlock(ann, 'ann'), refused)
    assert.deepEqual(throttle.recallByName('ann', now), refused)
    assert.equal(throttle.recallByName('ben', now), null)
    passedMs = BLOCK_CACHED_MS / 2 - 1
    assert.ok(throttle.recallByName('ann', now))
    passedMs = BLOCK_CACHED_MS / 2
    assert.equal(throttle.recallByName('ann', now), null, 'an attempt has to check')
    assert.equal(throttle.recallBlock(ann, 'ann'), null)
    assert.ok(throttle.recallByName('ann', now), 'only one attempt checks')
    passedMs = BLOCK_CACHED_MS - 1
    assert.ok(throttle.recallByName('ann', now))
    passedMs = BLOCK_CACHED_MS
    assert.equal(throttle.recallByName('ann', now), null)
  })

  test('is not recalled by name after its end', async () => {
    await failAs('ann@example.com', 2)
    await throttle.reserve(scopesOf('ann@example.com'), 'ann@example.com')
    assert.ok(throttle.recallBlock(scopesOf('ann@example.com'), 'ann'))
    now = new Date(now.getTime() + 15 * MINUTE_MS)
    assert.equal(throttle.recallByName('ann', now), null)
  })

  test('is not recalled by name after the store was asked about any scope', async () => {
    const [ann, ben] = [scopesOf('ann@example.com'), scopesOf('ben@example.com', '10.9.9.8')]
    await failAs('ann@example.com', 2)
    const refused = await throttle.reserve(ann, 'ann@example.com')
    assert.ok(throttle.recallBlock(ann, 'ann'))
    assert.equal((await throttle.reserve(ben, 'ben@example.com')).kind, 'admitted')
    assert.equal(throttle.recallByName('ann', now), null)
    assert.deepEqual(throttle.recallBlock(ann, 'ann'), refused, 'the block itself is still cached')
    await throttle.reserve(ann, 'ann@example.com')
    assert.equal(throttle.recallByName('ann', now), null)
  })

  test('is as old as its question to the store, even if the answer comes late', async () => {
    const ann = scopesOf('ann@example.com')
    await failAs('ann@example.com', 2)
    const asking = throttle.reserve(ann, 'ann@example.com')
    passedMs = BLOCK_CACHED_MS
    assert.equal((await asking).kind, 'blocked')
    assert.equal(throttle.recallBlock(ann, null), null)
  })
})

test('waiting attempts are woken in the order of arrival; a woken one can wait again as the first', async () => {
  const { store } = await openTestStore('sqlite')
  const throttle = createThrottle(store.attempts, () => new Date())
  const served: string[] = []
  const wait = async (name: string, isFirst = false) => {
    if (await throttle.waitForScope('a key', performance.now() + MINUTE_MS, isFirst)) {
      served.push(name)
    }
  }
  const waits = [wait('ann'), wait('ben')]
  throttle.wakeNext('a key')
  await waits[0]
  waits.push(wait('ann again', true), wait('cat'))
  for (let i = 0; i < 3; i++) {
    await new Promise(setImmediate)
    throttle.wakeNext('a key')
  }
  await Promise.all(waits)
  assert.deepEqual(served, ['ann', 'ann again', 'ben', 'cat'])
  assert.equal(throttle.countWaiting('a key'), 0)
})

describe('an attempt that waits', async () => {
  const { store } = await openTestStore('sqlite')
  const throttle = createThrottle(store.attempts, () => new Date())
  const wait = (key: string, ms: number) =>
    throttle.waitForScope(key, performance.now() + ms, false)
  const countTimers = () =>
    process.getActiveResourcesInfo().filter(resource => resource === 'Timeout').length

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
    const second = wait('a key', MINUTE_MS)
    await wait('the deadline of the first', 40)
    throttle.wakeNext('a key')
    assert.equal(await second, true)
  })

  test('is woken from time to time to ask again, in each new queue of its scope', async () => {
    for (let i = 0; i < 2; i++) assert.equal(await wait('polled', MINUTE_MS), true)
  })

  test('is woken at once when an attempt in its scope ends', async () => {
    const scopes = makeScopes()
    const waits = scopes.map(({ key }) => wait(key, MINUTE_MS))
    throttle.wake(scopes)
    for (const { key } of scopes) assert.equal(throttle.countWaiting(key), 0)
    assert.deepEqual(await Promise.all(waits), [true, true, true])
  })

  test(`finds at most ${MAX_WAITING - 1} others, else it is refused at once`, async () => {
    const waits = Array.from({ length: MAX_WAITING }, () => wait('full', MINUTE_MS))
    const refused = wait('full', MINUTE_MS)
    assert.equal(throttle.countWaiting('full'), MAX_WAITING)
    assert.equal(await refused, false)
    for (let i = 0; i < MAX_WAITING; i++) throttle.wakeNext('full')
    assert.deepEqual(new Set(await Promise.all(waits)), new Set([true]))
  })
})
