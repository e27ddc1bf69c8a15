import assert from 'node:assert/strict'
import { beforeEach, describe, test } from 'node:test'
import { openTestStore } from '../../test/engines.ts'
import { changeAt } from '../../test/storage/fixtures.ts'
import { throttleScopes } from './scopes.ts'
import { BLOCK_CACHED_MS, createThrottle, type Throttle } from './throttle.ts'

const MINUTE_MS = 60_000
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
    assert.equal(throttle.recallBlock(scopesOf('ann@example.com')), null)
    const refused = await throttle.reserve(scopesOf('ann@example.com'), 'ann@example.com')
    assert.equal(refused.kind, 'blocked')
    assert.deepEqual(throttle.recallBlock(scopesOf('ann@example.com')), refused)
    assert.equal(throttle.recallBlock(scopesOf('ann@example.com', '10.9.9.9')), null)
    assert.equal(throttle.recallBlock(scopesOf('ben@example.com')), null)
  })

  test('of a client is recalled for every email', async () => {
    await failAs('ann@example.com', 1)
    await failAs('ben@example.com', 2)
    await throttle.reserve(scopesOf('cat@example.com'), 'cat@example.com')
    assert.equal(throttle.recallBlock(scopesOf('dan@example.com'))?.scope, 'client')
  })

  test('that lasts longest is recalled', async () => {
    await failAs('ann@example.com', 2)
    await throttle.reserve(scopesOf('ann@example.com'), 'ann@example.com')
    now = new Date(now.getTime() + MINUTE_MS)
    await failAs('ben@example.com', 1)
    const longest = await throttle.reserve(scopesOf('cat@example.com'), 'cat@example.com')
    assert.deepEqual(throttle.recallBlock(scopesOf('ann@example.com')), longest)
  })

  test('is not recalled after its end', async () => {
    await failAs('ann@example.com', 2)
    await throttle.reserve(scopesOf('ann@example.com'), 'ann@example.com')
    now = new Date(now.getTime() + 15 * MINUTE_MS)
    assert.equal(throttle.recallBlock(scopesOf('ann@example.com')), null)
  })

  test('is checked again by one attempt after half its time, and dropped after its whole time', async () => {
    const ann = scopesOf('ann@example.com')
    await failAs('ann@example.com', 2)
    await throttle.reserve(ann, 'ann@example.com')
    passedMs = BLOCK_CACHED_MS / 2
    assert.equal(throttle.recallBlock(ann), null)
    assert.ok(throttle.recallBlock(ann), 'only one attempt checks')
    passedMs = BLOCK_CACHED_MS - 1
    assert.ok(throttle.recallBlock(ann))
    passedMs = BLOCK_CACHED_MS
    for (let i = 0; i < 2; i++) assert.equal(throttle.recallBlock(ann), null)
    await throttle.reserve(ann, 'ann@example.com')
    assert.ok(throttle.recallBlock(ann))
    await store.throttle.clearOfEmail('ann@example.com', changeAt(now))
    assert.equal((await throttle.reserve(ann, 'x')).kind, 'admitted')
    assert.equal(throttle.recallBlock(ann), null)
  })

  test('is as old as its question to the store, even if the answer comes late', async () => {
    const ann = scopesOf('ann@example.com')
    await failAs('ann@example.com', 2)
    const asking = throttle.reserve(ann, 'ann@example.com')
    passedMs = BLOCK_CACHED_MS
    assert.equal((await asking).kind, 'blocked')
    assert.equal(throttle.recallBlock(ann), null)
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

test('beyond 256, attempts do not wait for a scope', async () => {
  const throttle = createThrottle({ reserve: () => Promise.reject() }, () => new Date())
  const wait = () => throttle.waitForScope('pair', performance.now() + MINUTE_MS, false)
  const waiting = Array.from({ length: 256 }, wait)
  assert.equal(await wait(), false)
  for (let i = 0; i < 256; i++) throttle.wakeNext('pair')
  assert.deepEqual(new Set(await Promise.all(waiting)), new Set([true]))
})
