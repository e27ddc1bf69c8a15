import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, type TestContext, test } from 'node:test'
import { checkKernel, PUBLISHED_CASES } from '../../test/hashing/hash-cases.ts'
import { assemble } from '../../tools/bcrypt-kernel.ts'
import {
  createLanes,
  createTimes,
  type Done,
  instantiate,
  type Job,
  KERNEL_NAMES,
} from './lanes.js'
import { INITIAL_AT } from './memory.js'

const bytes = readFileSync(join(import.meta.dirname, 'kernel.wasm'))
const module = new WebAssembly.Module(bytes)

/**
 * Lanes with a clock that only rounds move. `roundMs` is the time of a round with one busy lane, two and three.
 */
function createRig(t: TestContext, roundMs: [number, number, number] = [1, 1, 1]) {
  const load = { nowMs: 0, slowdown: 1 }
  t.mock.method(performance, 'now', () => load.nowMs)
  const kernel = { ...instantiate(module) }
  const chunks: { lanes: number; count: number }[] = []
  const times = createTimes()
  for (const [i, ms] of roundMs.entries()) {
    const [lanes, run] = [i + 1, kernel[`locals${i + 1}`]]
    times[lanes] = ms
    kernel[`locals${lanes}`] = (count, ...numbers) => {
      run?.(count, ...numbers)
      chunks.push({ lanes, count })
      load.nowMs += count * ms * load.slowdown
    }
  }
  const lanes = createLanes(kernel, 'locals', times)
  return {
    ...{ lanes, load, chunks, times },
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

test('the kernel is what its generator assembles', async () => {
  assert.deepEqual(Buffer.from(await assemble()), bytes)
})

describe('a digest', () => {
  for (const name of KERNEL_NAMES) {
    test(`is that of the published test vectors with the kernel ${name}`, () => {
      assert.equal(checkKernel(name, PUBLISHED_CASES), PUBLISHED_CASES.length)
    })
  }

  test('is the same with further rounds, and all of them are computed', t => {
    const { join, runToEnd, lanes, chunks } = createRig(t)
    join(0, {})
    const [alone] = runToEnd()
    chunks.length = 0
    const { roundsLeft } = join(0, { totalRounds: 64 })
    while (lanes.isBusy()) {
      const done = lanes.runChunk()
      const computed = chunks.reduce((sum, { count }) => sum + count, 0)
      assert.equal(roundsLeft[0], 64 - computed)
      assert.deepEqual(done, computed === 64 ? [alone] : [])
    }
  })
})

describe('secrets', () => {
  const password = randomBytes(60)
  /** As the kernel reads it: little-endian words. */
  const inMemory = Buffer.from(password).swap32()
  const isZero = (content: Uint8Array) => content.every(byte => byte === 0)

  test('are nowhere in the memory after a job, and at once if it is cancelled, while those of other lanes stay', t => {
    const { join, lanes, runToEnd, memory } = createRig(t)
    join(0, {})
    const [alone] = runToEnd()
    join(0, { totalRounds: 64 })
    const job = join(2, { key: Buffer.concat([password, Buffer.alloc(1)]), totalRounds: 64 })
    assert.ok(isZero(job.key))
    lanes.runChunk()
    assert.ok(memory.includes(inMemory))
    lanes.leave(2)
    assert.ok(!memory.includes(inMemory))
    assert.deepEqual(runToEnd(), [alone])
    assert.ok(isZero(memory))
  })
})

test('a lane is not freed by the cancellation of an earlier job', t => {
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

describe('the measured times', () => {
  const ENDLESS = { rounds: 2 ** 30, totalRounds: 2 ** 30 }

  test('give chunks of about 2 ms', t => {
    const { join, lanes, chunks } = createRig(t, [0.1, 0.125, 0.5])
    for (const lane of [0, 1, 2]) {
      join(lane, ENDLESS)
      lanes.runChunk()
    }
    assert.deepEqual(
      chunks.map(({ count }) => count),
      [20, 16, 4],
    )
  })

  test('learn with one busy lane that all rounds are slower', t => {
    const { join, lanes, times, load } = createRig(t, [1, 1.25, 5])
    join(0, ENDLESS)
    load.slowdown = 2
    while (load.nowMs < 200) lanes.runChunk()
    const [slowdown = 0, ...fastest] = times
    assert.ok(slowdown > 1.6 && slowdown < 1.9, String(slowdown))
    assert.deepEqual(fastest, [1, 1.25, 5])
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

  test('that a busy neighbour disturbed at the start are corrected while one lane is busy', t => {
    const { join, runToEnd, times, memory } = createRig(t, [1, 1.25, 1.5])
    join(0, {})
    const [alone] = runToEnd()
    times.set([10, 12.5, 15], 1)
    join(0, { totalRounds: 2 ** 10 })
    const done = runToEnd()
    const [, ...corrected] = times
    for (const [i, ms] of [1, 1.25, 1.5].entries()) {
      assert.ok(Math.abs((corrected[i] ?? 0) - ms) < 1e-9, String(corrected))
    }
    assert.deepEqual(done, [alone])
    assert.ok(memory.every(byte => byte === 0))
  })
})
