import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, type TestContext, test } from 'node:test'
import { assemble } from './generate.ts'
import { parseHash } from './hash-text.ts'
import { createLanes, type Done, instantiate, type Job } from './lanes.js'
import { INITIAL_AT } from './memory.js'

const bytes = readFileSync(join(import.meta.dirname, 'kernel.wasm'))
const module = new WebAssembly.Module(bytes)

/** Lanes with a clock that only rounds move. `roundMs` is the time of a round with one busy lane, two and three. */
function createRig(t: TestContext, roundMs: [number, number, number] = [1, 1, 1]) {
  const load = { nowMs: 0, slowdown: 1 }
  t.mock.method(performance, 'now', () => load.nowMs)
  const kernel = instantiate(module)
  const counts: number[] = []
  const counted = (run: (count: number) => void, ms: number) => (count: number) => {
    run(count)
    counts.push(count)
    load.nowMs += count * ms * load.slowdown
  }
  const [one, two, three] = roundMs
  const times = Float64Array.of(1, ...roundMs)
  const lanes = createLanes(
    {
      ...kernel,
      rounds1: counted(kernel.rounds1, one),
      rounds2: counted(kernel.rounds2, two),
      rounds3: counted(kernel.rounds3, three),
    },
    times,
  )
  return {
    ...{ lanes, load, counts, times },
    memory: Buffer.from(kernel.memory.buffer, 0, INITIAL_AT),
    join(lane: number, job: Partial<Job>): Job {
      const defaults = { id: lane, lane, key: Buffer.from('a\0'), salt: Buffer.alloc(16) }
      const rounds = { rounds: 16, totalRounds: 16, roundsLeft: new Float64Array(1) }
      const joined = { ...defaults, ...rounds, ...job }
      lanes.join(joined)
      return joined
    },
    runToEnd(): Done[] {
      const done = []
      while (lanes.isBusy()) done.push(...lanes.runChunk())
      return done
    },
  }
}

test('the kernel is what generate.ts assembles', async () => {
  assert.deepEqual(Buffer.from(await assemble()), bytes)
})

describe('a digest', () => {
  // Test vectors of Openwall's crypt_blowfish (wrapper.c), except those that reproduce errors of old versions.
  const VECTORS: [password: string, hash: string][] = [
    ['U*U', '$2a$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW'],
    ['U*U*', '$2a$05$CCCCCCCCCCCCCCCCCCCCC.VGOzA784oUp/Z0DY336zx7pLYAy0lwK'],
    ['U*U*U', '$2a$05$XXXXXXXXXXXXXXXXXXXXXOAcXxm9kjPGEMsLznoKqmqw7tc8WCx4a'],
    ['', '$2a$05$CCCCCCCCCCCCCCCCCCCCC.7uG0VCzI2bS7j6ymqJi9CdcdxiRTWNy'],
    [
      '0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789',
      '$2a$05$abcdefghijklmnopqrstuu5s2v8.iXieOjg/.AySBTTZIIVFJeBui',
    ],
    ['\xff\xff\xa3', '$2y$05$/OK.fbVrR/bpIqNJ5ianF.CE5elHaaO4EbggVDjb8P19RukzXSM3e'],
    ['\xa3', '$2y$05$/OK.fbVrR/bpIqNJ5ianF.Sa7shbm4.OzKpvFnX1pQLmQW96oUlCq'],
    ['\xaa'.repeat(72), '$2a$05$/OK.fbVrR/bpIqNJ5ianF.swQOIzjOiJ9GHEPuhEkvqrUyvWhEMx6'],
  ]
  for (const busyLanes of [1, 2, 3]) {
    test(`is that of the published test vectors with ${busyLanes} of the lanes busy`, t => {
      const { join, runToEnd } = createRig(t)
      for (const start of VECTORS.keys()) {
        const vectors = Array.from({ length: busyLanes }, (_, lane) => {
          const [password = '', text = ''] = VECTORS[(start + lane) % VECTORS.length] ?? []
          const hash = parseHash(text)
          assert.ok(hash)
          return { key: Buffer.from(`${password}\0`, 'latin1'), ...hash }
        })
        for (const [lane, { key, salt, cost }] of vectors.entries()) {
          join(lane, { key, salt, rounds: 2 ** cost, totalRounds: 2 ** cost })
        }
        const done = runToEnd()
        assert.equal(done.length, busyLanes)
        for (const { id, digest } of done) {
          assert.deepEqual(Buffer.from(digest), vectors[id]?.digest)
        }
      }
    })
  }

  test('is the same with further rounds, and all of them are computed', t => {
    const { join, runToEnd, lanes, counts } = createRig(t)
    join(0, {})
    const [alone] = runToEnd()
    counts.length = 0
    const { roundsLeft } = join(0, { totalRounds: 64 })
    while (lanes.isBusy()) {
      const done = lanes.runChunk()
      const computed = counts.reduce((sum, count) => sum + count, 0)
      assert.equal(roundsLeft[0], 64 - computed)
      assert.deepEqual(done, computed === 64 ? [alone] : [])
    }
  })
})

describe('secrets', () => {
  const password = randomBytes(60)
  const key = () => Buffer.concat([password, Buffer.alloc(1)])
  /** As the kernel reads it: little-endian words. */
  const inMemory = Buffer.from(password).swap32()
  const isZero = (content: Uint8Array) => content.every(byte => byte === 0)

  test('are nowhere in the memory of the lanes after the job', t => {
    const { join, runToEnd, memory } = createRig(t)
    const job = join(1, { key: key() })
    assert.ok(memory.includes(inMemory))
    assert.ok(isZero(job.key))
    runToEnd()
    assert.ok(isZero(memory))
  })

  test('of a cancelled job are overwritten at once, and those of other lanes stay', t => {
    const { join, lanes, runToEnd, memory } = createRig(t)
    join(0, {})
    const [alone] = runToEnd()
    join(0, { totalRounds: 64 })
    join(2, { key: key(), totalRounds: 64 })
    lanes.runChunk()
    assert.ok(memory.includes(inMemory))
    lanes.leave(2)
    assert.ok(!memory.includes(inMemory))
    assert.deepEqual(runToEnd(), [alone])
    assert.ok(isZero(memory))
  })
})

describe('a lane', () => {
  test('takes one job at a time', t => {
    const { join, lanes } = createRig(t)
    join(1, { id: 7 })
    assert.throws(() => join(1, { id: 8 }), /lane 1 is occupied/)
    lanes.leave(7)
    join(1, { id: 8 })
  })

  test('is not freed by the cancellation of an earlier job', t => {
    const { join, lanes, runToEnd } = createRig(t)
    join(1, { id: 7 })
    runToEnd()
    join(1, { id: 8 })
    lanes.leave(7)
    assert.deepEqual(
      runToEnd().map(({ id }) => id),
      [8],
    )
  })
})

describe('the measured times', () => {
  const ENDLESS = { rounds: 2 ** 30, totalRounds: 2 ** 30 }

  test('give chunks of about 2 ms', t => {
    const { join, lanes, counts } = createRig(t, [0.1, 0.125, 0.5])
    for (const lane of [0, 1, 2]) {
      join(lane, ENDLESS)
      lanes.runChunk()
    }
    assert.deepEqual(counts, [20, 16, 4])
  })

  test('learn with one busy lane that all rounds are slower', t => {
    const { join, lanes, times, load } = createRig(t, [0.1, 0.125, 0.5])
    join(0, ENDLESS)
    load.slowdown = 2
    while (load.nowMs < 200) lanes.runChunk()
    const [slowdown = 0, ...fastestMs] = times
    assert.ok(slowdown > 1.6 && slowdown < 1.9, String(slowdown))
    assert.deepEqual(fastestMs, [0.1, 0.125, 0.5])
    load.slowdown = 1
    while (load.nowMs < 400) lanes.runChunk()
    assert.ok((times[0] ?? 0) > 1.1, String(times[0]))
    while (load.nowMs < 2_500) lanes.runChunk()
    assert.ok((times[0] ?? 0) < 1.02, String(times[0]))
  })

  test('count a short chunk less than a whole one', t => {
    const { join, lanes, times, load } = createRig(t, [0.1, 0.125, 0.5])
    load.slowdown = 11
    join(0, { rounds: 1, totalRounds: 1 })
    lanes.runChunk()
    assert.ok(Math.abs((times[0] ?? 0) - 1.01) < 1e-9, String(times[0]))
    join(0, ENDLESS)
    lanes.runChunk()
    assert.ok(Math.abs((times[0] ?? 0) - 1.2098) < 1e-9, String(times[0]))
  })

  test('remember the fastest round', t => {
    const { join, lanes, times, load } = createRig(t, [0.1, 0.125, 0.5])
    join(0, ENDLESS)
    load.slowdown = 0.5
    lanes.runChunk()
    load.slowdown = 1
    lanes.runChunk()
    assert.ok(Math.abs((times[1] ?? 0) - 0.05) < 1e-9)
    assert.ok((times[0] ?? 0) > 1)
  })
})
