import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { settled, simulateHasher } from '../../test/hashing/simulated-hasher.ts'
import { capacityOf } from './capacity.ts'
import { createHashQueue } from './hash-queue.ts'

const COST = 10
/** How long a hash takes alone, beside another and beside two, if it is not slower. */
const HASH_MS = [100, 120, 150]

type Arrival = {
  network?: string
  client?: string
  account?: string
  isKnownDevice?: boolean
  withinMs?: number
  cost?: number
}

function createRig({
  threads = 1,
  lanes = 3,
  slowness = 1,
  hashMs = HASH_MS.slice(0, lanes),
  loginTimeMs = 1_000,
  canCancel = true,
} = {}) {
  const roundMs = hashMs.map(ms => (slowness * ms) / 2 ** COST)
  const simulated = simulateHasher({ threads, roundMs, canCancel })
  const { hasher, nowMs, running } = simulated
  const limits = { cost: COST, loginTimeMs }
  const waitedMs: number[] = []
  const queue = createHashQueue(hasher, limits, nowMs, ms => waitedMs.push(Math.round(ms)))
  const results = new Map<string, { end: string; atMs: number }>()

  function ask(name: string, arrival: Arrival = {}) {
    const { client = name, network = client, account = name, isKnownDevice = false } = arrival
    const finishByMs = nowMs() + (arrival.withinMs ?? loginTimeMs)
    const slot = queue.admit({ network, client, account, isKnownDevice }, finishByMs)
    return { slot, finishByMs }
  }
  function admit(name: string, arrival: Arrival = {}) {
    const { slot, finishByMs } = ask(name, arrival)
    if (slot === 'undecided') return null
    const rounds = 2 ** (arrival.cost ?? COST)
    const salt = Buffer.from(name)
    const job = { password: Buffer.from('secret'), salt, rounds, totalRounds: rounds }
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
    const names = Array.from({ length: count }, (_, i) => `${client} ${i}`)
    return names.filter(name => arrive(name, { client, ...(account && { account }) })).length
  }
  return {
    ...simulated,
    ...{ queue, limits, ask, admit, arrive, arriveMany, waitedMs },
    /** From now on, hashes take this many times as long. */
    slowDown: (factor: number) => simulated.setRoundMs(roundMs.map(ms => factor * ms)),
    running: () => running().map(({ salt }) => salt.toString()),
    /** What the hash of this attempt ended with, and when. */
    resultOf: (name: string) => results.get(name),
  }
}

describe('hashing', () => {
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

  test('a hash that cannot begin is tried once, and fails alone', async () => {
    const { arrive, hasher, advance, resultOf, running } = createRig({ lanes: 1 })
    for (const name of 'abc') arrive(name)
    const { start } = hasher
    const tried: string[] = []
    hasher.start = (_, { salt }) => {
      tried.push(salt.toString())
      throw new Error('the thread has ended')
    }
    await advance(101)
    assert.deepEqual(tried, ['b', 'c'])
    assert.equal(resultOf('a')?.end, 'a')
    for (const name of tried) assert.equal(resultOf(name)?.end, 'Error: the thread has ended')
    hasher.start = start
    arrive('d')
    assert.deepEqual(running(), ['d'])
  })

  test('the depth counts the attempts that wait for their hash to begin, and each wait is reported', async () => {
    const { arrive, queue, advance, waitedMs } = createRig({ hashMs: [128] })
    await advance(50)
    for (const name of 'abc') arrive(name)
    assert.equal(queue.depth(), 2)
    await advance(1_000)
    assert.deepEqual(waitedMs, [0, 128, 256])
  })

  test('an attempt whose turn comes too late is shed, and the next one is hashed', async () => {
    const { arrive, slowDown, resultOf, advance } = createRig()
    for (const name of 'abc') arrive(name)
    assert.ok(arrive('hurried', { withinMs: 400 }))
    assert.ok(arrive('patient', { withinMs: 5_000 }))
    slowDown(4)
    await advance(1_100)
    assert.equal(resultOf('hurried')?.end, 'shed')
    assert.equal(resultOf('patient')?.end, 'patient')
  })

  test('an attempt is hashed if its hash will end just in time', async () => {
    for (const withinMs of [510, 509]) {
      const { arrive, slowDown, advance, resultOf } = createRig({ hashMs: [128] })
      arrive('first')
      assert.ok(arrive('second', { withinMs }))
      // The first hash now ends after 2 + 252 ms, and the second one takes 256 ms.
      slowDown(2)
      await advance(1_000)
      assert.equal(resultOf('second')?.end, withinMs === 510 ? 'second' : 'shed')
    }
  })

  test('of a higher cost takes longer in a forecast', () => {
    const { arrive } = createRig({ lanes: 1, loginTimeMs: 500 })
    assert.ok(arrive('first'))
    assert.ok(arrive('second', { cost: COST + 1 }))
    // 100 + 200 ms fit into 500 − 120 ms; 100 + 200 + 100 ms do not.
    assert.equal(arrive('third'), false)
  })
})

describe('a hash slot', () => {
  test('is given to as many attempts as will be answered in time', async () => {
    const { arrive, resultOf, advance, hasher, limits } = createRig({ threads: 2 })
    const { hashes, logins: count } = capacityOf(hasher, limits)
    assert.equal(hashes, 6)
    // Five times six hashes in 750 ms, then two on each thread in 120 ms, then the margin of 120 ms.
    assert.equal(count, 34)
    const admitted = Array.from({ length: 40 }, (_, i) => arrive(String(i)))
    assert.deepEqual(admitted.indexOf(false), count)
    await advance(2_000)
    for (let i = 0; i < count; i++) {
      assert.equal(resultOf(String(i))?.end, String(i))
      assert.ok((resultOf(String(i))?.atMs ?? 0) <= 880, JSON.stringify(resultOf(String(i))))
    }
  })

  test('is not given without time, even if a hash takes less than a millisecond', () => {
    const { arrive } = createRig({ hashMs: [1 / 4] })
    arrive('first')
    assert.equal(arrive('second', { withinMs: 120 }), false)
  })

  test('is undecided while the attempts that take the room are being reserved', async () => {
    const { admit, ask, queue } = createRig({ slowness: 5 })
    const [first, second] = ['a', 'b', 'c'].map(name => admit(name))
    void first?.run()
    // Beside the first hash, it would be late in any case.
    assert.equal(ask('hurried', { withinMs: 100 }).slot, null)
    for (const name of 'de') assert.equal(ask(name).slot, 'undecided')
    const decided = queue.nextDecision()
    second?.release()
    await decided
    assert.ok(admit('d'))
  })

  test('is decided for one attempt when another one has been reserved, and for all after the last one', async () => {
    const { admit, queue } = createRig({ slowness: 5 })
    const [first, second, third] = ['a', 'b', 'c'].map(name => admit(name))
    const woken: string[] = []
    for (const name of 'def') queue.nextDecision().then(() => woken.push(name))
    const expected = ['d', 'de', 'def']
    for (const slot of [first, second, third]) {
      void slot?.run()
      await settled()
      assert.equal(woken.join(''), expected.shift())
    }
    for (const name of 'gh') queue.nextDecision().then(() => woken.push(name))
    third?.release()
    await settled()
    assert.equal(woken.join(''), 'defgh')
  })

  test('is lost if the hash cannot end 40 ms before the time that the attempt has then', async () => {
    for (const [leftMs, moreMs, isLost] of [
      [160, 0, false],
      [159, 0, true],
      [59, 100, true],
      [60, 100, false],
    ] as const) {
      const { admit, arrive, advance } = createRig()
      arrive('neighbour', { cost: COST + 2 })
      const slot = admit('slow', { withinMs: 300 })
      await advance(300 - leftMs)
      // It takes 120 ms beside the other one.
      const hashing = slot?.run(moreMs)
      await advance(leftMs + moreMs)
      assert.equal((await hashing) === null, isLost)
    }
  })

  test('that is lost erases the password and wakes an attempt that is undecided', async () => {
    const { admit, queue, slowDown } = createRig({ slowness: 5 })
    const [first, , third] = ['a', 'b', 'c'].map(name => admit(name))
    void first?.run()
    const decided = queue.nextDecision()
    // Beside the first hash, the third one would now take 1,200 ms.
    slowDown(2)
    assert.equal(await third?.run(), null)
    assert.deepEqual(third?.job.password, Buffer.alloc('secret'.length))
    await decided
  })

  test('that another attempt takes, or whose hash cannot begin, erases the password', async () => {
    for (const isBroken of [false, true]) {
      const { admit, arrive, hasher, advance } = createRig({ hashMs: [128] })
      arrive('first')
      const second = admit('second', { withinMs: 420 })
      const hashing = second?.run().catch(() => null)
      if (isBroken) {
        hasher.start = () => {
          throw new Error('the thread has ended')
        }
        await advance(200)
      } else assert.ok(arrive('owner', { isKnownDevice: true }))
      assert.equal(await hashing, null)
      assert.deepEqual(second?.job.password, Buffer.alloc('secret'.length))
    }
  })

  test('on an idle thread leaves the other lanes to others, even if its time is short', () => {
    const { admit } = createRig()
    // Its hash takes 100 ms alone, and 120 ms beside another.
    assert.ok(admit('hurried', { withinMs: 150 }))
    assert.ok(admit('second'))
  })

  test('must be in time beside busy lanes for 2 seconds after an attempt was shed', async () => {
    for (const afterMs of [1_999, 2_000]) {
      const { arrive, advance } = createRig()
      arrive('first')
      assert.equal(arrive('shed', { withinMs: 100 }), false)
      await advance(afterMs - 1)
      arrive('neighbour')
      await advance(1)
      // Its hash takes 120 ms beside the other one, and 150 ms beside two; then the margin of 120 ms.
      assert.equal(arrive('hurried', { withinMs: 250 }), afterMs === 2_000)
    }
  })

  test('is not refused for the sake of an attempt that is in time, even if its lanes were busy', async () => {
    const { arrive, advance } = createRig({ threads: 2, slowness: 5 })
    assert.ok(arrive('on the first thread'))
    assert.ok(arrive('on the second thread', { cost: COST - 2 }))
    // It ends after 600 ms, but would end after 712 ms if another hash joined it after 150 ms.
    assert.ok(arrive('beside the first', { withinMs: 720 }))
    assert.equal(arrive('shed', { withinMs: 100 }), false)
    await advance(150)
    assert.ok(arrive('on the idle thread'))
  })

  test('is refused with the same forecast to attempts that come within 5 ms, unless they have more time', async () => {
    for (const [afterMs, withinMs, isRefused] of [
      [4, 230, true],
      [5, 230, false],
      [4, 232, false],
    ] as const) {
      const { arrive, advance, slowDown } = createRig()
      arrive('first')
      // Beside the first one, it takes 120 ms; then the margin of 120 ms.
      assert.equal(arrive('shed', { withinMs: 230 }), false)
      slowDown(1 / 2)
      await advance(afterMs)
      assert.equal(arrive('next', { withinMs }), !isRefused)
    }
  })

  test('is good for a second hash, against which the first one does not count', async () => {
    for (const network of ['office', 'home']) {
      const isFirst = network === 'home'
      const { admit, arrive, advance } = createRig({ lanes: 1 })
      const change = admit('change', { network: 'office' })
      arrive('colleague', { network: 'office' })
      const first = change?.run()
      await advance(202)
      assert.ok(await first)
      assert.ok(arrive('running'))
      const second = change?.run(-468)
      // Both have 330 ms, enough for one of them after the hash that runs.
      assert.equal(arrive('newcomer', { network, withinMs: 330 }), isFirst)
      await advance(1_000)
      assert.equal((await second) === null, isFirst)
    }
  })

  test('can still be reached by an attempt that waits for its scope only if time is left', () => {
    const { queue } = createRig({ slowness: 2.5 })
    for (const [ahead, capacity, neededMs] of [
      [0, 5, 620],
      [4, 5, 620],
      [5, 5, 870],
      [9, 5, 870],
      [10, 5, 1_120],
      [1, 1, 870],
      [2, 1, 1_120],
    ] as const) {
      assert.ok(queue.hasTimeFor(neededMs, ahead, capacity), `${ahead} of ${capacity}`)
      assert.ok(!queue.hasTimeFor(neededMs - 1, ahead, capacity), `${ahead} of ${capacity}`)
    }
  })
})

describe('fairness', () => {
  test('one client does not keep out others, even if a single hash takes too long', async () => {
    const { arriveMany, arrive, advance, running, resultOf } = createRig({
      threads: 2,
      slowness: 50,
    })
    assert.equal(arriveMany(5, 'attacker'), 2)
    await advance(1_000)
    assert.ok(arrive('stranger'))
    assert.deepEqual(running(), ['attacker 0', 'stranger'])
    await advance(5_010)
    assert.equal(resultOf('stranger')?.end, 'stranger')
  })

  test('stops no hash of a client with one attempt, nor for the second attempt of another', async () => {
    for (const [clients, further] of Object.entries({ abc: 'd', aab: 'b' })) {
      const { arrive, advance, running } = createRig({ slowness: 5 })
      const names = [...clients].map((client, i) => `${client} ${i}`)
      for (const name of names) assert.ok(arrive(name, { client: name.charAt(0) }))
      await advance(200)
      assert.equal(arrive('further', { client: further }), false)
      assert.deepEqual(running(), names)
    }
  })

  test('stops no hash of a client whose only other attempt is being reserved', async () => {
    const { admit, arrive, advance, running } = createRig({ lanes: 1 })
    assert.ok(admit('reserved', { client: 'client' }))
    assert.ok(arrive('hashed', { client: 'client', cost: COST + 1 }))
    await advance(10)
    // After that hash it would end in 190 + 100 ms; then the margin of 120 ms.
    assert.equal(arrive('stranger', { withinMs: 400 }), false)
    assert.deepEqual(running(), ['hashed'])
  })

  test('stops a hash of a client with many attempts, once the attempt of another has its reservation', async () => {
    const { arriveMany, admit, advance, running, resultOf } = createRig({ slowness: 5 })
    assert.equal(arriveMany(5, 'attacker'), 3)
    await advance(200)
    const blocked = admit('blocked by the throttle')
    const reserved = admit('reserved')
    assert.equal(running().length, 3)
    blocked?.release()
    void reserved?.run()
    assert.deepEqual(running(), ['attacker 0', 'attacker 1', 'reserved'])
    await advance(1_000)
    assert.equal(resultOf('attacker 1')?.end, 'attacker 1')
    assert.equal(resultOf('attacker 2')?.end, 'shed')
  })

  test('stops such a hash rather than wait for it until little time is left', async () => {
    for (const withinMs of [267, 269]) {
      const { arrive, advance, running } = createRig({ lanes: 1 })
      arrive('earlier', { client: 'attacker' })
      await advance(101)
      arrive('later', { client: 'attacker' })
      await advance(50)
      // 48 ms for that hash, because a chunk of 2 ms counts as done, 100 ms for its own, the margin of 120 ms.
      assert.ok(arrive('stranger', { withinMs }))
      assert.deepEqual(running(), [withinMs === 267 ? 'stranger' : 'later'])
    }
  })

  test('several clients that come at once each stop a hash of a client with many attempts', async () => {
    const { arriveMany, admit, advance, running } = createRig({ threads: 2, slowness: 5 })
    assert.equal(arriveMany(10, 'attacker'), 6)
    await advance(200)
    const slots = ['a', 'b', 'c', 'd', 'e', 'f'].map(name => admit(name))
    assert.equal(slots.filter(Boolean).length, 5)
    for (const slot of slots) void slot?.run()
    assert.deepEqual(running().toSorted(), ['a', 'attacker 0', 'b', 'c', 'd', 'e'])
  })

  test('stops at most one hash on threads of one lane, even if two would make room', async () => {
    const { arrive, running } = createRig({ threads: 3, lanes: 1 })
    const attackers = ['a', 'b', 'c']
    for (const name of attackers) arrive(name, { client: 'attacker', cost: COST + 2 })
    // It waits for 400 ms. If one of those hashes were stopped, it would begin before the next attempt.
    assert.ok(arrive('patient'))
    assert.equal(arrive('hurried', { withinMs: 300 }), false)
    assert.deepEqual(running(), attackers)
  })

  test('stops neighbours in one thread, if an attempt would be too late beside them', async () => {
    const { arriveMany, arrive, slowDown, running } = createRig({ threads: 2, slowness: 5 })
    assert.equal(arriveMany(6, 'attacker'), 6)
    // Now 875 ms alone, and 1,050 ms beside another.
    slowDown(1.75)
    assert.ok(arrive('stranger'))
    assert.equal(running().length, 4)
    assert.ok(running().includes('stranger'))
  })

  for (const [kind, all, repeated] of [
    ['an account', { client: 'backend' }, { account: 'kate' }],
    ['a client', { network: 'network' }, { client: 'client' }],
    ['a network', {}, { network: 'network' }],
  ] as const) {
    test(`attempts of ${kind} that has few come before the further ones of another`, async () => {
      const { arrive, advance, resultOf } = createRig()
      for (let i = 0; i < 17; i++) assert.ok(arrive(`many ${i}`, { ...all, ...repeated }))
      assert.equal(arrive('many 17', { ...all, ...repeated }), false)
      for (const name of 'abcdef') assert.ok(arrive(name, all), name)
      await advance(2_000)
      // After the first three.
      assert.ok((resultOf('a')?.atMs ?? 0) <= 304)
      assert.equal(resultOf('f')?.end, 'f')
      for (const name of ['many 15', 'many 16']) assert.equal(resultOf(name)?.end, 'shed')
    })

    test(`a hash of ${kind} counts for 5 seconds: another one comes first`, async () => {
      const { arrive, advance, running } = createRig({ slowness: 5 })
      arrive('earlier', { ...all, ...repeated })
      await advance(510)
      for (const afterMs of [0, 4_000]) {
        await advance(afterMs)
        arrive('repeated', { ...all, ...repeated })
        for (const name of ['a', 'b']) arrive(`${name} ${afterMs}`, all)
        await advance(100)
        const isFirst = afterMs === 0
        assert.equal(arrive(`fresh ${afterMs}`, all), isFirst)
        assert.equal(running().includes('repeated'), !isFirst)
        await advance(900)
      }
    })
  }

  test('an engine that cannot stop a hash lets it end', async () => {
    const { arriveMany, arrive, advance, running } = createRig({ hashMs: [512], canCancel: false })
    assert.equal(arriveMany(5, 'attacker'), 1)
    await advance(50)
    assert.equal(arrive('stranger'), false)
    assert.deepEqual(running(), ['attacker 0'])
  })
})

describe('known devices', () => {
  test('come first, and stop hashes of unknown ones if need be', async () => {
    const { arrive, advance, running } = createRig({ slowness: 5 })
    for (const name of ['a', 'b', 'c']) assert.ok(arrive(name))
    await advance(200)
    assert.ok(arrive('owner', { isKnownDevice: true }))
    assert.deepEqual(running(), ['a', 'b', 'owner'])
    for (const owner of ['second', 'third']) assert.ok(arrive(owner, { isKnownDevice: true }))
    assert.deepEqual(running(), ['owner', 'second', 'third'])
    assert.equal(arrive('fourth', { isKnownDevice: true }), false)
  })

  test('evict an attempt that waits only if its hash would end less than 40 ms before its time', async () => {
    for (const withinMs of [422, 421]) {
      const { arrive, advance, resultOf } = createRig({ hashMs: [128] })
      await advance(50)
      arrive('first')
      assert.ok(arrive('second', { withinMs }))
      // The forecast for the second one is now 126 + 128 + 128 ms: a chunk of 2 ms counts as done.
      assert.ok(arrive('owner', { isKnownDevice: true }))
      await advance(1_000)
      assert.equal(resultOf('second')?.end, withinMs === 422 ? 'second' : 'shed')
    }
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

  test('come first with one attempt per network at a time', async () => {
    const { arrive, advance, running } = createRig({ slowness: 5 })
    for (const name of ['a', 'b', 'c']) assert.ok(arrive(name))
    await advance(200)
    const known = { network: 'office', isKnownDevice: true }
    assert.ok(arrive('ann', known))
    assert.equal(arrive('ben', known), false)
    assert.ok(arrive('eve', { isKnownDevice: true }))
    assert.deepEqual(running(), ['a', 'ann', 'eve'])
  })

  test('come first again 5 seconds after the last time, whatever strangers guess', async () => {
    const { arrive, advance, running } = createRig({ slowness: 5 })
    const isFirst = async (owner: string, account = 'ann') => {
      for (const name of ['a', 'b', 'c']) arrive(`${name} before ${owner}`)
      await advance(10)
      arrive(owner, { account, isKnownDevice: true })
      const isRunning = running().includes(owner)
      await advance(990)
      return isRunning
    }
    assert.ok(arrive('guess', { account: 'ann' }))
    await advance(1_000)
    assert.equal(await isFirst('first time'), true)
    assert.equal(await isFirst('early'), false)
    assert.equal(await isFirst('other owner', 'ben'), true)
    assert.equal(await isFirst('later'), false)
    await advance(1_750)
    assert.equal(await isFirst('last time'), true)
  })
})

describe('a job that no caller waits for', () => {
  test('runs beside a hash on another thread', async () => {
    const { queue, arrive } = createRig({ threads: 2 })
    arrive('a')
    assert.equal(await queue.runLast(async () => 'done'), 'done')
  })

  test('runs when a thread is idle, one at a time, and is dropped if too many wait', async () => {
    const { queue, arriveMany, advance } = createRig()
    const begun: string[] = []
    const ends: (() => void)[] = []
    const job = (name: string) => () => {
      begun.push(name)
      return new Promise<void>(resolve => ends.push(resolve))
    }
    arriveMany(4, 'client')
    void queue.runLast(job('first'))
    assert.equal(await queue.runLast(job('one too many')), null)
    await advance(200)
    assert.deepEqual(begun, [])
    await advance(100)
    assert.deepEqual(begun, ['first'])
    void queue.runLast(job('second'))
    await settled()
    assert.deepEqual(begun, ['first'])
    ends[0]?.()
    await settled()
    assert.deepEqual(begun, ['first', 'second'])
  })
})
