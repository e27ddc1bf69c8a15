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
      assert.equal((await throttle.reserve(scopesOf(email), email, now)).kind, 'admitted')
      await store.attempts.fail(scopesOf(email), null, now)
    }
  }

  test('is recalled for the scopes that it concerns, and for no others', async () => {
    await failAs('ann@example.com', 2)
    assert.equal(throttle.recallBlock(scopesOf('ann@example.com')), null)
    const refused = await throttle.reserve(scopesOf('ann@example.com'), 'ann@example.com', now)
    assert.equal(refused.kind, 'blocked')
    assert.deepEqual(throttle.recallBlock(scopesOf('ann@example.com')), refused)
    assert.equal(throttle.recallBlock(scopesOf('ann@example.com', '10.9.9.9')), null)
    assert.equal(throttle.recallBlock(scopesOf('ben@example.com')), null)
  })

  test('of a client is recalled for every email', async () => {
    await failAs('ann@example.com', 1)
    await failAs('ben@example.com', 2)
    await throttle.reserve(scopesOf('cat@example.com'), 'cat@example.com', now)
    assert.equal(throttle.recallBlock(scopesOf('dan@example.com'))?.scope, 'client')
  })

  test('that lasts longest is recalled', async () => {
    await failAs('ann@example.com', 2)
    await throttle.reserve(scopesOf('ann@example.com'), 'ann@example.com', now)
    now = new Date(now.getTime() + MINUTE_MS)
    await failAs('ben@example.com', 1)
    const longest = await throttle.reserve(scopesOf('cat@example.com'), 'cat@example.com', now)
    assert.deepEqual(throttle.recallBlock(scopesOf('ann@example.com')), longest)
  })

  test('is not recalled after its end', async () => {
    await failAs('ann@example.com', 2)
    await throttle.reserve(scopesOf('ann@example.com'), 'ann@example.com', now)
    now = new Date(now.getTime() + 15 * MINUTE_MS)
    assert.equal(throttle.recallBlock(scopesOf('ann@example.com')), null)
  })

  test('is kept when another one is remembered', async () => {
    for (const email of ['ann@example.com', 'ben@example.com']) {
      client = `10.1.0.${++clients}`
      await failAs(email, 2)
      await throttle.reserve(scopesOf(email), email, now)
    }
    assert.ok(throttle.recallBlock(scopesOf('ann@example.com', `10.1.0.${clients - 1}`)))
  })

  test('is checked again by one attempt after half its time, and dropped after its whole time', async () => {
    const ann = scopesOf('ann@example.com')
    await failAs('ann@example.com', 2)
    await throttle.reserve(ann, 'ann@example.com', now)
    passedMs = BLOCK_CACHED_MS / 2 - 1
    assert.ok(throttle.recallBlock(ann))
    passedMs = BLOCK_CACHED_MS / 2
    assert.equal(throttle.recallBlock(ann), null)
    assert.ok(throttle.recallBlock(ann), 'only one attempt checks')
    passedMs = BLOCK_CACHED_MS - 1
    assert.ok(throttle.recallBlock(ann))
    passedMs = BLOCK_CACHED_MS
    for (let i = 0; i < 2; i++) assert.equal(throttle.recallBlock(ann), null)
    await throttle.reserve(ann, 'ann@example.com', now)
    assert.ok(throttle.recallBlock(ann))
    await store.throttle.clearOfEmail('ann@example.com', changeAt(now))
    assert.equal((await throttle.reserve(ann, 'x', now)).kind, 'admitted')
    assert.equal(throttle.recallBlock(ann), null)
  })

  test('is as old as its question to the store, even if the answer comes late', async () => {
    const ann = scopesOf('ann@example.com')
    await failAs('ann@example.com', 2)
    const asking = throttle.reserve(ann, 'ann@example.com', now)
    passedMs = BLOCK_CACHED_MS
    assert.equal((await asking).kind, 'blocked')
    assert.equal(throttle.recallBlock(ann), null)
  })
})

describe('a line', async () => {
  const { store } = await openTestStore('sqlite')
  const throttle = createThrottle(store.attempts, () => new Date())
  const join = (key: string) => throttle.joinLine(key) ?? assert.fail('the line is full')
  const later = (ms = MINUTE_MS) => performance.now() + ms
  const countTimers = () =>
    process.getActiveResourcesInfo().filter(resource => resource === 'Timeout').length

  test('is served in the order of arrival; the first one stays first until it leaves', async () => {
    const served: string[] = []
    const places = ['ann', 'ben', 'cat'].map(name => {
      const place = join('a key')
      const serve = async () => served.push((await place.turn(later())) ? name : 'late')
      return { ...place, serve }
    })
    const turns = places.map(({ serve }) => serve())
    await turns[0]
    await places[0]?.serve()
    for (const [index, place] of places.entries()) {
      await turns[index]
      place.leave()
    }
    assert.deepEqual(served, ['ann', 'ann', 'ben', 'cat'])
  })

  test('tells an attempt when its time is over, at once if it was over before', async () => {
    const first = join('late')
    const second = join('late')
    assert.equal(await first.turn(later(-1)), false)
    assert.equal(await second.turn(later(5)), false)
  })

  test('leaves no timer behind', async () => {
    const before = countTimers()
    const first = join('timers')
    assert.equal(await first.turn(later()), true)
    first.leave()
    assert.equal(countTimers(), before)
  })

  test('is asked at once when an attempt in its scope ends', async () => {
    const scopes = makeScopes()
    for (const settle of [
      () => throttle.release(scopes),
      () => throttle.fail(scopes, null, new Date()),
      () => throttle.pass(scopes),
    ]) {
      const places = scopes.map(({ key }) => join(key))
      // These are woken only if the first ones were, because those do not leave by themselves.
      const turns = places.map(async place => {
        await place.turn(later())
        place.leave()
      })
      await settle()
      await Promise.all(turns)
    }
  })

  test(`has at most ${MAX_WAITING} places`, () => {
    const places = Array.from({ length: MAX_WAITING }, () => join('full'))
    assert.equal(throttle.joinLine('full'), null)
    places[0]?.leave()
    assert.ok(throttle.joinLine('full'))
  })
})
