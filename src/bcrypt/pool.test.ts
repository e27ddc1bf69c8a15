import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { after, describe, test } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { promisify } from 'node:util'
import type { Worker } from 'node:worker_threads'
import bcrypt from 'bcrypt'
import {
  checkInAllLanes,
  makeHashCases,
  NEVER_CANCELLED,
  OFTEN_CANCELLED,
} from '../../test/hashing/hash-cases.ts'
import { parseHash } from './hash-text.ts'
import { MAX_LANES } from './memory.js'
import { openLanes, usefulMs } from './pool.ts'

const ENDLESS = 2 ** 30
const stored = parseHash(await bcrypt.hash('password', 4))
assert.ok(stored)
const { salt, digest: expected } = stored

/** Every worker that was started, in this order. */
const workers: Worker[] = []
process.on('worker', worker => workers.push(worker))

async function openRig() {
  const lost: string[] = []
  const hasher = await openLanes(2, error => lost.push(error.message))
  const start = (thread: number, totalRounds = 16) =>
    hasher.start(thread, { password: Buffer.from('password'), salt, rounds: 16, totalRounds })
  /** One job in every lane of the thread. */
  const startAll = (thread: number, totalRounds?: number) =>
    Array.from({ length: MAX_LANES }, () => start(thread, totalRounds))
  return { hasher, lost, start, startAll }
}

describe('hashing', async () => {
  const { hasher, lost, start, startAll } = await openRig()
  after(() => hasher.close())

  test('500 hashes have the digests of npm bcrypt', async () => {
    const cases = await makeHashCases(500, NEVER_CANCELLED)
    assert.equal(await checkInAllLanes(hasher, MAX_LANES, cases), 0)
  })

  test('no job gets the digest of another while many are cancelled', async () => {
    const cases = await makeHashCases(200, OFTEN_CANCELLED)
    const cancelledAtOnce = cases.filter(each => each.cancelAfterTurns === 0).length
    const cancelled = await checkInAllLanes(hasher, MAX_LANES, cases)
    assert.ok(cancelledAtOnce > 0 && cancelled > cancelledAtOnce && cancelled < cases.length)
  })

  test('each thread has a time of a round for each number of hashes that is worth it, which all threads agree on', () => {
    const [first = [], second = []] = [0, 1].map(hasher.roundMs)
    assert.ok(first.length >= 1 && first.length <= MAX_LANES)
    assert.equal(second.length, first.length)
    for (const ms of [...first, ...second]) assert.ok(ms > 0 && ms < 1_000, String(ms))
    const throughputs = first.map((ms, i) => (i + 1) / ms)
    assert.equal(throughputs.at(-1), Math.max(...throughputs))
  })

  test('a job knows its thread, and how many rounds are left at any time', async () => {
    const endless = start(1, ENDLESS)
    assert.equal(endless.thread, 1)
    while (endless.roundsLeft() === ENDLESS) await nextTurn()
    assert.ok(endless.roundsLeft() > 0 && endless.roundsLeft() < ENDLESS)
    endless.cancel?.()
    const hashing = start(1, 64)
    assert.deepEqual(await hashing.digest, expected)
    assert.equal(hashing.roundsLeft(), 0)
  })

  test('a thread takes one job per lane, and a cancelled job frees its lane', async () => {
    const jobs = startAll(0, ENDLESS)
    assert.throws(() => start(0), /no free lane/)
    jobs.at(-1)?.cancel?.()
    assert.equal(await jobs.at(-1)?.digest, null)
    assert.deepEqual(await start(0).digest, expected)
    for (const { cancel } of jobs) cancel?.()
    for (const { digest } of jobs) assert.equal(await digest, null)
    for (const { digest } of startAll(0)) assert.deepEqual(await digest, expected)
  })

  test('no worker was lost meanwhile', () => assert.deepEqual(lost, []))
})

test('as many lanes are used as the processor gains from', () => {
  const MEASURED: [lanes: number, on: string, roundMs: number[]][] = [
    [3, 'Xeon (Cascade Lake)', [0.06, 0.065, 0.088, 0.142]],
    [3, 'Neoverse-N1', [0.073, 0.09, 0.113]],
    [4, 'EPYC (Zen 3)', [0.0717, 0.0772, 0.0861, 0.0978, 0.1254, 0.155]],
    [5, 'EPYC (Zen 5)', [0.0391, 0.0402, 0.0431, 0.0462, 0.0534, 0.0649]],
    [1, 'one that hardly gains', [0.06, 0.118, 0.177, 0.236, 0.295, 0.354]],
    [1, 'one that was not measured', Array(MAX_LANES).fill(Number.POSITIVE_INFINITY)],
  ]
  for (const [lanes, on, roundMs] of MEASURED) {
    assert.deepEqual(usefulMs(roundMs), roundMs.slice(0, lanes), on)
  }
})

test('fewer hashes at a time are never thought to be slower', () => {
  assert.deepEqual(usefulMs([0.08, 0.12, 0.1, 0.11]), [0.08, 0.1, 0.1, 0.11])
})

describe('a worker that dies', () => {
  const DEATHS: [how: string, kill: (worker: Worker) => void, message: string][] = [
    ['is terminated', worker => worker.terminate(), 'a hashing thread ended'],
    [
      'gets a job although no lane is free',
      worker => worker.postMessage({ id: -1 }),
      'no lane is free',
    ],
  ]
  for (const [how, kill, message] of DEATHS) {
    test(`because it ${how} rejects its jobs and is replaced by the next job`, async () => {
      const { hasher, lost, start, startAll } = await openRig()
      const [first, second] = workers.slice(-2)
      assert.ok(first && second)
      const failing = startAll(0, ENDLESS)
      const unaffected = start(1)
      kill(first)
      for (const { digest } of failing) await assert.rejects(digest, { message })
      assert.deepEqual(await unaffected.digest, expected)
      assert.deepEqual(lost, [message])
      assert.equal(workers.at(-1), second)

      for (const { digest } of [...startAll(0), ...startAll(1)]) {
        assert.deepEqual(await digest, expected)
      }
      assert.notEqual(workers.at(-1), second)
      // A late cancellation of a rejected job must not reach the new worker's jobs.
      const later = startAll(0)
      for (const { cancel } of failing) cancel?.()
      for (const { digest } of later) assert.deepEqual(await digest, expected)
      assert.deepEqual(lost, [message])
      await hasher.close()
    })
  }
})

describe('the end', () => {
  test('closing rejects the jobs that run, and is not a loss', async () => {
    const { hasher, lost, start } = await openRig()
    const rejected = assert.rejects(start(0, ENDLESS).digest)
    await hasher.close()
    await rejected
    assert.deepEqual(lost, [])
  })

  test('the process waits for a job, and not for a worker without one', async () => {
    const script = `
      import { openLanes } from ${JSON.stringify(join(import.meta.dirname, 'pool.ts'))}
      const hasher = await openLanes(2, () => {})
      const job = { password: Buffer.from('a'), salt: Buffer.alloc(16), rounds: 16, totalRounds: 1024 }
      hasher.start(0, job).digest.then(() => console.log('done'))`
    const run = promisify(execFile)
    const { stdout } = await run(process.execPath, ['--input-type=module', '-e', script])
    assert.equal(stdout, 'done\n')
  })
})
