import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { heapGrowth } from '../../test/support/heap.ts'
import { canHavePriority, createShares, inFairOrder, type Ranked } from './fair-order.ts'

type Level = 'network' | 'client' | 'pair'
const LEVELS: Level[] = ['network', 'client', 'pair']

/** Without a limit, the names of the test take 70 MiB. */
const MOST_BYTES = 20 * 2 ** 20

const toRanked = (client: string, network: string, account: string, hasPriority = false) => ({
  ...{ client, network, account, hasPriority, isKnownDevice: hasPriority },
  ...{ pair: `${client} ${account}`, isRunning: false, ownHashes: 0, turn: 0 },
})

/** The order, found one attempt after the other: a model that shares no code with the service. */
function modelOrder(attempts: Ranked[]): Ranked[] {
  const waiting = [...attempts]
  const had: Ranked[] = []
  const ordered: Ranked[] = []
  for (let next = nextOf(waiting, had, LEVELS); next; next = nextOf(waiting, had, LEVELS)) {
    waiting.splice(waiting.indexOf(next), 1)
    had.push(next)
    ordered.push(next)
  }
  return ordered
}

/** Of the network that has had the fewest turns, of its client with the fewest, and of its account with the fewest. */
function nextOf(waiting: Ranked[], had: Ranked[], [level, ...inner]: Level[]): Ranked | undefined {
  if (!level) return waiting[0]
  const turnsOf = (attempt: Ranked) => had.filter(it => it[level] === attempt[level]).length
  const groups = Object.values(Object.groupBy(waiting, it => it[level]))
  const nextOfEach = groups.map(group => nextOf(group ?? [], had, inner))
  return waiting
    .filter(attempt => nextOfEach.includes(attempt))
    .toSorted((a, b) => turnsOf(a) - turnsOf(b))[0]
}

test('attempts are in the order that a model finds one after the other', () => {
  const ATTEMPT = fc.record({ client: fc.nat(6), account: fc.nat(4) })
  fc.assert(
    fc.property(fc.array(ATTEMPT, { maxLength: 30 }), drawn => {
      const attempts = drawn.map(({ client, account }) =>
        toRanked(`client ${client}`, `network ${Math.floor(client / 2)}`, `${account}`),
      )
      const shares = createShares(() => 0)
      const ordered = inFairOrder(attempts, shares)
      const expected = modelOrder(attempts)
      assert.deepEqual(
        ordered.map(attempt => expected.indexOf(attempt)),
        expected.map((_, index) => index),
      )
    }),
    { seed: 1 },
  )
})

describe('the share of a name', () => {
  test('counts a hash for 5 seconds, and several for longer', () => {
    let now = 0
    const shares = createShares(() => now)
    shares.add(toRanked('ann', 'office', 'a'))
    for (let i = 0; i < 4; i++) shares.add(toRanked('ben', 'office', 'b'))
    for (const [afterMs, ann, ben, office] of [
      [0, 1, 4, 5],
      [2_000, 1, 2, 3],
      [4_900, 1, 1, 1],
      [5_000, 0, 1, 1],
      [9_000, 0, 0, 1],
      [10_000, 0, 0, 0],
    ] as const) {
      now = afterMs
      assert.deepEqual(['ann', 'ben', 'office'].map(shares.countOf), [ann, ben, office])
    }
  })

  test('of 200,000 clients leaves nothing behind', async () => {
    let now = 0
    const shares = createShares(() => now)
    const grown = await heapGrowth(() => {
      // A thousand hashes per second: hundreds of cores at the default cost.
      for (; now < 200_000; now++) shares.add(toRanked(`client ${now}`, `network ${now}`, `${now}`))
    })
    assert.ok(grown < MOST_BYTES, `${grown} bytes`)
    assert.equal(shares.countOf(`client ${now - 1}`), 1)
  })
})

test('priority is for one known device per network and account at a time, and per account once in 5 seconds', () => {
  let now = 0
  const shares = createShares(() => now)
  const first = toRanked('laptop', 'office', 'ann', true)
  const can = (network: string, account: string, isKnownDevice = true) =>
    canHavePriority({ network, client: 'phone', account, isKnownDevice }, [first], shares)
  assert.deepEqual(
    [can('home', 'ben'), can('home', 'ben', false), can('office', 'ben'), can('home', 'ann')],
    [true, false, false, false],
  )
  shares.add({ ...first, account: 'ben' })
  assert.equal(can('home', 'ben'), false)
  now = 5_000
  assert.equal(can('home', 'ben'), true)
})
