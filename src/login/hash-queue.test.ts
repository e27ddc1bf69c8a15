import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { settled, simulateHasher } from '../../test/login/simulated-hasher.ts'
import { createHashQueue } from './hash-queue.ts'

/** At cost 10, a hash takes 100 ms alone, 120 ms beside another and 150 ms beside two. */
const COST = 10
const ROUND_MS = [100, 120, 150].map(ms => ms / 2 ** COST)

type RigOptions = {
  threads?: number
  roundMs?: number[]
  loginTimeMs?: number
  canCancel?: boolean
}
type Arrival = {
  network?: string
  client?: string
  account?: string
  isKnownDevice?: boolean
  withinMs?: number
  cost?: number
}

function createRig(options: RigOptions = {}) {
  const { threads = 1, roundMs = ROUND_MS, loginTimeMs = 1_000, canCancel = true } = options
  const simulated = simulateHasher({ threads, roundMs, canCancel })
  const { hasher, nowMs, running } = simulated
  const limits = { cost: COST, loginTimeMs }
  const waitedMs: number[] = []
  const queue = createHashQueue(hasher, limits, nowMs, ms => waitedMs.push(Math.round(ms)))
  const results = new Map<string, { end: string; atMs: number }>()

  const jobOf = (name: string, cost = COST) => ({
    password: Buffer.from('secret'),
    salt: Buffer.from(name),
    rounds: 2 ** cost,
    totalRounds: 2 ** cost,
  })
  function admit(name: string, arrival: Arrival = {}) {
    const { client = name, network = client, account = name, isKnownDevice = false } = arrival
    const finishByMs = nowMs() + (arrival.withinMs ?? loginTimeMs)
    const slot = queue.admit({ network, client, account, isKnownDevice })
    const job = jobOf(name, arrival.cost)
    return slot && { ...slot, job, run: (moreMs = 0) => slot.run(finishByMs + moreMs, job) }
  }
  /** Asks for a slot and uses it at once; false if the attempt is shed. */
  function arrive(name: string, arrival: Arrival = {}): boolean {
    const hashing = admit(name, arrival)?.run()
    const note = (end: string) => results.set(name, { end, atMs: Math.round(nowMs()) })
    hashing?.then(
      digest => note(digest === null ? 'shed' : digest.toString()),
      error => note(String(error)),
    )
    return hashing !== undefined
  }
  function arriveMany(count: number, client: string, account?: string): number {
    let admitted = 0
    for (let i = 0; i < count; i++) {
      if (arrive(`${client} ${i}`, { client, ...(account && { account }) })) admitted++
    }
    return admitted
  }
  return {
    ...simulated,
    ...{ queue, limits, admit, arrive, arriveMany, waitedMs },
    running: () => running().map(({ salt }) => salt.toString()),
    /** What the hash of this attempt ended with, and when. */
    resultOf: (name: string) => results.get(name),
  }
}

describe('hashing', () => {
  test('begins in the order of arrival when a lane is free', async () => {
    const { arrive, running, advance } = createRig({ threads: 2 })
    for (const name of 'abcdefgh') assert.ok(arrive(name))
    assert.deepEqual(running().toSorted(), ['a', 'b', 'c', 'd', 'e', 'f'])
    await advance(160)
    assert.deepEqual(running().toSorted(), ['g', 'h'])
    // Each has a thread for itself, because the first one waited for the hashes that ended almost together.
    await advance(96)
    assert.deepEqual(running(), [])
  })

  test('uses the thread that is faster with one hash more', () => {
    const { arrive, hasher } = createRig({ threads: 2 })
    const started: number[] = []
    const { start } = hasher
    hasher.start = (thread, job) => {
      started.push(thread)
      return start(thread, job)
    }
    for (const name of 'abcd') arrive(name)
    assert.deepEqual(started, [0, 1, 0, 1])
  })

  test('begins on an idle thread, even if a hash on another one is about to end', async () => {
    const { arrive, advance, running } = createRig({ threads: 2, roundMs: ROUND_MS.slice(0, 1) })
    arrive('a')
    await advance(99)
    arrive('b')
    assert.deepEqual(running(), ['a', 'b'])
  })

  test('continues after a hash that fails', async () => {
    const { arrive, failAll, resultOf, advance, running } = createRig()
    for (const name of 'abcd') arrive(name)
    failAll(new Error('the thread died'))
    await settled()
    for (const name of 'abc') assert.equal(resultOf(name)?.end, 'Error: the thread died')
    assert.deepEqual(running(), ['d'])
    await advance(101)
    assert.equal(resultOf('d')?.end, 'd')
  })

  test('a hash that cannot begin fails alone', async () => {
    const { arrive, hasher, resultOf, running } = createRig()
    const { start } = hasher
    hasher.start = () => {
      throw new Error('the thread has ended')
    }
    arrive('a')
    await settled()
    assert.equal(resultOf('a')?.end, 'Error: the thread has ended')
    hasher.start = start
    arrive('b')
    assert.deepEqual(running(), ['b'])
  })

  test('hashes that cannot begin are tried once each', async () => {
    const { arrive, hasher, advance } = createRig({ roundMs: ROUND_MS.slice(0, 1) })
    for (const name of 'abc') arrive(name)
    const tried: string[] = []
    hasher.start = (_, { salt }) => {
      tried.push(salt.toString())
      throw new Error('the thread has ended')
    }
    await advance(101)
    assert.deepEqual(tried, ['b', 'c'])
  })

  test('the depth counts the attempts that wait for their hash to begin, and each wait is reported', async () => {
    const { arrive, queue, advance, waitedMs } = createRig({ roundMs: [1 / 8] })
    await advance(50)
    for (const name of 'abc') arrive(name)
    assert.equal(queue.depth(), 2)
    await advance(1_000)
    assert.deepEqual(waitedMs, [0, 128, 256])
  })

  test('an attempt whose turn comes too late is shed, and the next one is hashed', async () => {
    const { arrive, setRoundMs, resultOf, advance } = createRig()
    for (const name of 'abc') arrive(name)
    assert.ok(arrive('hurried', { withinMs: 400 }))
    assert.ok(arrive('patient', { withinMs: 5_000 }))
    setRoundMs(ROUND_MS.map(ms => 4 * ms))
    await advance(1_100)
    assert.equal(resultOf('hurried')?.end, 'shed')
    assert.equal(resultOf('patient')?.end, 'patient')
  })
})

describe('a hash slot', () => {
  test('is given to as many attempts as hashes end in the time of a login', async () => {
    const { arrive, resultOf, advance } = createRig({ threads: 2 })
    const admitted = Array.from({ length: 40 }, (_, i) => arrive(String(i)))
    // 2 × 3 hashes in 150 ms are 35 in 880 ms.
    assert.equal(admitted.indexOf(false), 35)
    await advance(2_000)
    for (let i = 0; i < 35; i++) {
      assert.equal(resultOf(String(i))?.end, String(i))
      assert.ok((resultOf(String(i))?.atMs ?? 0) <= 960, JSON.stringify(resultOf(String(i))))
    }
  })

  test('is given on an idle thread, even if a single hash takes too long', async () => {
    const { arrive, advance } = createRig({ threads: 2, roundMs: ROUND_MS.map(ms => 50 * ms) })
    assert.ok(arrive('first'))
    assert.ok(arrive('second'))
    assert.equal(arrive('third'), false)
    await advance(5_100)
    assert.ok(arrive('fourth'))
  })

  test('is given to fewer attempts after hashes have become slower, but not to an idle service', async () => {
    const { arrive, arriveMany, advance, setRoundMs } = createRig({ threads: 2 })
    arrive('first')
    arrive('long', { cost: COST + 2 })
    await advance(150)
    setRoundMs(ROUND_MS.map(ms => 5 * ms))
    // 2 × 3 hashes in 750 ms are 7 in 880 ms.
    assert.equal(arriveMany(40, 'client'), 6)
    await advance(5_000)
    assert.equal(arriveMany(40, 'other'), 35)
  })

  test('is given to fewer attempts while others are refused: none has to wait for long', async () => {
    const { arrive, arriveMany, advance } = createRig({ threads: 2 })
    assert.equal(arriveMany(40, 'client'), 35)
    await advance(160)
    // 29 are left, and each lane has time for five hashes within 820 ms.
    assert.ok(arrive('next', { client: 'client' }))
    assert.equal(arrive('last', { client: 'client' }), false)
  })

  test('that is released can be given again', () => {
    const { admit, arrive } = createRig({ roundMs: ROUND_MS.map(ms => 50 * ms) })
    const first = admit('first')
    assert.equal(arrive('early'), false)
    first?.release()
    assert.ok(arrive('later'))
  })

  test('that another attempt takes, or whose hash cannot begin, erases the password', async () => {
    for (const isBroken of [false, true]) {
      const { admit, arrive, hasher, advance } = createRig({ roundMs: [3 / 8] })
      arrive('first')
      const second = admit('second')
      const hashing = second?.run().catch(() => null)
      if (isBroken) {
        hasher.start = () => {
          throw new Error('the thread has ended')
        }
        await advance(400)
      } else assert.ok(arrive('owner', { isKnownDevice: true }))
      assert.equal(await hashing, null)
      assert.deepEqual(second?.job.password, Buffer.alloc('secret'.length))
    }
  })

  test('is good for a second hash, against which the first one does not count', async () => {
    for (const [network, isFirst] of [
      ['office', false],
      ['home', true],
    ] as const) {
      const { admit, arrive, advance } = createRig({ roundMs: [3 / 8] })
      const change = admit('change', { network: 'office' })
      const first = change?.run()
      arrive('colleague', { network: 'office' })
      await advance(800)
      assert.ok(await first)
      assert.ok(arrive('running'))
      const second = change?.run(1_000)
      assert.equal(arrive('newcomer', { network }), isFirst)
      await advance(2_000)
      assert.equal((await second) === null, isFirst)
    }
  })
})

describe('fairness', () => {
  test('one client gets all slots while no other client comes', () => {
    for (const account of [undefined, 'kate']) {
      assert.equal(createRig({ threads: 2 }).arriveMany(40, 'office', account), 35)
    }
  })

  test('a client with few attempts comes before the further ones of a client with many', async () => {
    const { arriveMany, arrive, advance, resultOf } = createRig()
    assert.equal(arriveMany(20, 'attacker'), 17)
    for (const name of 'abcdef') assert.ok(arrive(name), name)
    await advance(2_000)
    // After the first three of the attacker.
    assert.ok((resultOf('a')?.atMs ?? 0) <= 304)
    assert.equal(resultOf('f')?.end, 'f')
    assert.equal(resultOf('attacker 15')?.end, 'shed')
    assert.equal(resultOf('attacker 16')?.end, 'shed')
  })

  test('stops a hash of a client with many attempts, if another client would be too late otherwise', async () => {
    const { arriveMany, arrive, advance, running, resultOf } = createRig({
      roundMs: ROUND_MS.map(ms => 5 * ms),
    })
    assert.equal(arriveMany(5, 'attacker'), 3)
    await advance(200)
    assert.ok(arrive('stranger'))
    assert.deepEqual(running(), ['attacker 0', 'attacker 1', 'stranger'])
    await advance(1_000)
    assert.equal(resultOf('attacker 2')?.end, 'shed')
    assert.equal(resultOf('stranger')?.end, 'stranger')
    assert.equal(resultOf('attacker 1')?.end, 'attacker 1')
  })

  test('one client does not keep out others, even if a single hash takes too long', async () => {
    const { arriveMany, arrive, advance, running, resultOf } = createRig({
      threads: 2,
      roundMs: ROUND_MS.map(ms => 50 * ms),
    })
    assert.equal(arriveMany(5, 'attacker'), 2)
    await advance(1_000)
    assert.ok(arrive('stranger'))
    assert.deepEqual(running(), ['attacker 0', 'stranger'])
    await advance(5_010)
    assert.equal(resultOf('stranger')?.end, 'stranger')
  })

  test('accounts of one client take turns too', async () => {
    const { arriveMany, arrive, advance, resultOf } = createRig()
    arriveMany(20, 'backend', 'kate')
    assert.ok(arrive('ben', { client: 'backend' }))
    await advance(2_000)
    assert.ok((resultOf('ben')?.atMs ?? 0) <= 304)
  })

  test('an engine that cannot stop a hash lets it end', async () => {
    const { arriveMany, arrive, advance, running } = createRig({
      roundMs: [0.5],
      canCancel: false,
    })
    assert.equal(arriveMany(5, 'attacker'), 1)
    await advance(50)
    assert.equal(arrive('stranger'), false)
    assert.deepEqual(running(), ['attacker 0'])
  })
})

describe('known devices', () => {
  test('come first, and stop hashes of unknown ones if need be', async () => {
    const { arrive, advance, running } = createRig({ roundMs: ROUND_MS.map(ms => 5 * ms) })
    for (const name of ['a', 'b', 'c']) assert.ok(arrive(name))
    await advance(200)
    assert.ok(arrive('owner', { isKnownDevice: true }))
    assert.deepEqual(running(), ['a', 'b', 'owner'])
    for (const owner of ['second', 'third']) assert.ok(arrive(owner, { isKnownDevice: true }))
    assert.deepEqual(running(), ['owner', 'second', 'third'])
    assert.equal(arrive('fourth', { isKnownDevice: true }), false)
  })

  test('come first with one attempt per account at a time', async () => {
    const { arrive, arriveMany, advance, resultOf } = createRig()
    arriveMany(6, 'attacker')
    const ann = { client: 'attacker', account: 'ann', isKnownDevice: true }
    for (const name of ['first', 'second']) assert.ok(arrive(name, ann))
    await advance(2_000)
    assert.ok((resultOf('first')?.atMs ?? 0) <= 304)
    assert.ok((resultOf('second')?.atMs ?? 0) > 304)
  })
})
