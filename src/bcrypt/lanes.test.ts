import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, type TestContext, test } from 'node:test'
import bcrypt from 'bcrypt'
import fc from 'fast-check'
import { checkKernel, createSpeed, PUBLISHED_CASES } from '../../test/hashing/hash-cases.ts'
import { assemble } from '../../tools/bcrypt-kernel.ts'
import { parseHash } from './hash-text.ts'
import {
  createLanes,
  type Done,
  instantiate,
  type Job,
  KERNEL_NAMES,
  type KernelName,
} from './lanes.js'
import { INITIAL_AT, LANE_BYTES, MAX_LANES } from './memory.js'

const bytes = readFileSync(join(import.meta.dirname, 'kernel.wasm'))
const module = new WebAssembly.Module(bytes)

/** Lanes with a clock that only rounds move. `roundMs` is the time of a round with one busy lane, two and so on. */
function createRig(
  t: TestContext,
  roundMs: number[] = Array(MAX_LANES).fill(1),
  name: KernelName = 'locals',
) {
  const load = { nowMs: 0, slowdown: 1 }
  t.mock.method(performance, 'now', () => load.nowMs)
  const kernel = { ...instantiate(module) }
  const chunks: { lanes: number; count: number }[] = []
  const speed = createSpeed()
  speed.fastestMs.set(roundMs)
  for (const [i, ms] of roundMs.entries()) {
    const [lanes, run] = [i + 1, kernel[`${name}${i + 1}`]]
    kernel[`${name}${lanes}`] = (count, ...numbers) => {
      run?.(count, ...numbers)
      chunks.push({ lanes, count })
      load.nowMs += count * ms * load.slowdown
    }
  }
  const lanes = createLanes(kernel, name, speed)
  return {
    ...{ lanes, load, chunks, fastestMs: speed.fastestMs },
    slowdown: () => speed.slowdown[0] ?? 0,
    memory: Buffer.from(kernel.memory.buffer, 0, INITIAL_AT),
    join(id: number, job: Partial<Job>): Job {
      const defaults = { id, key: Buffer.from('a\0'), salt: Buffer.alloc(16) }
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
    lanes.cancel(2)
    assert.ok(!memory.includes(inMemory))
    assert.deepEqual(runToEnd(), [alone])
    assert.ok(isZero(memory))
  })
})

describe('jobs that join, end and are cancelled in any order', async () => {
  const cases = await Promise.all(
    Array.from({ length: 2 * MAX_LANES }, async (_, id) => {
      const password = Buffer.from(randomBytes(30).toString('hex'))
      const hash = parseHash(await bcrypt.hash(password, 4 + (id % 2))) ?? assert.fail()
      return { id, password, inMemory: Buffer.from(password).swap32(), ...hash }
    }),
  )
  const step = fc.record({ action: fc.constantFrom('join', 'run', 'cancel'), number: fc.nat(5) })
  const history = fc.array(step, { minLength: 50, maxLength: 50 })

  for (const name of KERNEL_NAMES) {
    test(`have their own digests, and each is in memory once and only meanwhile: kernel ${name}`, t => {
      const { join, lanes, memory } = createRig(t, Array(MAX_LANES).fill(0.2), name)
      const waiting = [...cases]
      const busy = new Map<number, (typeof cases)[number]>()
      const leave = (id: number) => {
        const left = busy.get(id) ?? assert.fail()
        busy.delete(id)
        waiting.push(left)
        return left
      }
      const runChunk = () => {
        for (const { id, digest } of lanes.runChunk()) {
          assert.deepEqual(Buffer.from(digest), leave(id).digest)
        }
      }
      const actions = {
        join(number: number) {
          if (busy.size === MAX_LANES) return
          const next = waiting.shift() ?? assert.fail()
          busy.set(next.id, next)
          const [key, rounds] = [Buffer.concat([next.password, Buffer.alloc(1)]), 2 ** next.cost]
          join(next.id, { key, salt: next.salt, rounds, totalRounds: rounds * 2 ** (number % 3) })
        },
        run: () => lanes.isBusy() && runChunk(),
        cancel(number: number) {
          const id = [...busy.keys()][number]
          if (id === undefined) return
          lanes.cancel(id)
          leave(id)
        },
      }
      const check = (steps: typeof history extends fc.Arbitrary<infer T> ? T : never) => {
        for (const { action, number } of steps) {
          actions[action](number)
          for (const { id, inMemory } of cases) {
            assert.equal(memory.includes(inMemory), busy.has(id))
            assert.equal(memory.indexOf(inMemory), memory.lastIndexOf(inMemory))
          }
          assert.ok(memory.subarray(busy.size * LANE_BYTES).every(byte => byte === 0))
        }
      }
      // Each history goes on where the one before ended, so they cannot be made shorter.
      fc.assert(fc.property(history, check), { numRuns: 20, endOnFailure: true })
      while (lanes.isBusy()) runChunk()
      assert.ok(memory.every(byte => byte === 0))
    })
  }
})

test('a lane is not freed by the cancellation of an earlier job', t => {
  const { join, lanes, runToEnd } = createRig(t)
  join(7, {})
  runToEnd()
  join(8, {})
  lanes.cancel(7)
  assert.deepEqual(
    runToEnd().map(({ id }) => id),
    [8],
  )
})

describe('the measured times', () => {
  const ENDLESS = { rounds: 2 ** 30, totalRounds: 2 ** 30 }

  test('give chunks of about 2 ms', t => {
    const { join, lanes, chunks } = createRig(t, [0.1, 0.125, 0.5, 1, 1, 1])
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
    const { join, lanes, fastestMs, slowdown, load } = createRig(t, [1, 1.25, 5, 6, 7, 8])
    join(0, ENDLESS)
    load.slowdown = 2
    while (load.nowMs < 200) lanes.runChunk()
    assert.ok(slowdown() > 1.6 && slowdown() < 1.9, String(slowdown()))
    assert.deepEqual([...fastestMs], [1, 1.25, 5, 6, 7, 8])
    load.slowdown = 1
    while (load.nowMs < 400) lanes.runChunk()
    assert.ok(slowdown() > 1.1, String(slowdown()))
    while (load.nowMs < 2_500) lanes.runChunk()
    assert.ok(slowdown() < 1.02, String(slowdown()))
  })

  test('count a short chunk less than a whole one', t => {
    const { join, lanes, slowdown, load } = createRig(t, [0.1, 0.125, 0.5, 1, 1, 1])
    load.slowdown = 11
    join(0, { rounds: 1, totalRounds: 1 })
    lanes.runChunk()
    assert.ok(Math.abs(slowdown() - 1.01) < 1e-9, String(slowdown()))
    join(0, ENDLESS)
    lanes.runChunk()
    assert.ok(Math.abs(slowdown() - 1.2098) < 1e-9, String(slowdown()))
  })

  test('remember the fastest round', t => {
    const { join, lanes, fastestMs, slowdown, load } = createRig(t, [0.1, 0.125, 0.5, 1, 1, 1])
    join(0, ENDLESS)
    load.slowdown = 0.5
    lanes.runChunk()
    load.slowdown = 1
    lanes.runChunk()
    assert.ok(Math.abs((fastestMs[0] ?? 0) - 0.05) < 1e-9)
    assert.ok(slowdown() > 1)
  })

  for (const count of [1, MAX_LANES]) {
    test(`that a busy neighbour disturbed at the start are corrected while the busy lanes are ${count}`, t => {
      const roundMs = [1, 1.25, 1.5, 2, 2.5, 3]
      const { join, runToEnd, fastestMs, memory } = createRig(t, roundMs)
      join(0, {})
      const [alone] = runToEnd()
      fastestMs.set([10, 12.5, 15, 20, 25, 30])
      for (let id = 0; id < count; id++) join(id, { totalRounds: 2 ** 11 })
      const done = runToEnd()
      for (const [i, ms] of roundMs.entries()) {
        assert.ok(Math.abs((fastestMs[i] ?? 0) - ms) < 1e-9, String(fastestMs))
      }
      assert.equal(done.length, count)
      for (const { digest } of done) assert.deepEqual(digest, alone?.digest)
      assert.ok(memory.every(byte => byte === 0))
    })
  }
})
