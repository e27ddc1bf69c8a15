import assert from 'node:assert/strict'
import { test } from 'node:test'
import { simulateHasher } from '../../test/hashing/simulated-hasher.ts'
import { makeScopes } from '../../test/storage/fixtures.ts'
import type { Reservation } from '../domain/attempt.ts'
import { createHashQueue, type HashQueue } from '../hashing/hash-queue.ts'
import { admit } from './admission.ts'
import { createThrottle } from './throttle.ts'

const CLAIM = { network: 'n', client: 'c', account: 'a', isKnownDevice: false, name: null }
const SCOPES = makeScopes()
const ADMITTED: Reservation = { kind: 'admitted', user: null }
const busyIn = (key: string): Reservation => ({ kind: 'busy', user: null, key, capacity: 1 })

/** A store that gives these answers, and a throttle and a queue whose calls are noted. */
function createRig(answers: Reservation[], more: Partial<HashQueue> = {}, loginTimeMs = 60_000) {
  const calls: unknown[][] = []
  const deadlines: number[] = []
  const reserve = async () => answers.shift() ?? assert.fail('one reservation too many')
  // No time passes, so that no cached block gets old.
  const nowMs = () => 0
  const throttle = createThrottle({ reserve }, () => new Date(), nowMs)
  const { hasher } = simulateHasher({ threads: 1, roundMs: [0.1] })
  const queue = createHashQueue(hasher, { cost: 10, loginTimeMs: 5_000 }, nowMs)
  const hashQueue: HashQueue = {
    ...queue,
    admit(claim, finishByMs) {
      calls.push(['slot'])
      const slot = queue.admit(claim, finishByMs)
      if (!slot || slot === 'undecided') return slot
      return {
        ...slot,
        release() {
          calls.push(['release'])
          slot.release()
        },
      }
    },
    hasTimeFor(_finishByMs, ahead) {
      calls.push(['ahead', ahead])
      return true
    },
    ...more,
  }
  const watched: typeof throttle = {
    ...throttle,
    wakeNext(key) {
      calls.push(['wake', key])
      throttle.wakeNext(key)
    },
    waitForScope(key, deadlineMs, isFirst) {
      calls.push(['wait', key, isFirst])
      deadlines.push(deadlineMs)
      const waiting = throttle.waitForScope(key, deadlineMs, isFirst)
      throttle.wakeNext(key)
      return waiting
    },
  }
  const deps = { throttle: watched, hashQueue, loginTimeMs }
  const run = () => admit(deps, CLAIM, SCOPES, () => performance.now() + 5_000)
  return { calls, deadlines, throttle, run }
}

test('a woken attempt waits again as the first of its scope, and wakes the next one of a scope that it leaves', async () => {
  const { calls, throttle, run } = createRig([busyIn('a'), busyIn('a'), busyIn('b'), ADMITTED])
  const other = throttle.waitForScope('a', performance.now() + 60_000, false)
  const admission = await run()
  assert.equal(admission.kind, 'admitted')
  assert.deepEqual(calls, [
    ...[['slot'], ['release'], ['ahead', 1], ['wait', 'a', false]],
    ...[['slot'], ['release'], ['ahead', 0], ['wait', 'a', true]],
    ...[['slot'], ['release'], ['ahead', 0], ['wake', 'a'], ['wait', 'b', false]],
    ...[['slot'], ['wake', 'b']],
  ])
  assert.equal(await other, true)
})

test('an attempt waits for as long as a login may take, at least 2 seconds', async () => {
  for (const loginTimeMs of [500, 60_000]) {
    const limitMs = loginTimeMs === 500 ? 2_000 : 60_000
    const beforeMs = performance.now()
    const { deadlines, run } = createRig([busyIn('a'), ADMITTED], {}, loginTimeMs)
    await run()
    const [deadlineMs = 0] = deadlines
    assert.ok(deadlineMs >= beforeMs + limitMs && deadlineMs <= performance.now() + limitMs)
  }
})

test('an attempt without time for its scope is shed, and does not wait', async () => {
  const { calls, run } = createRig([busyIn('a')], { hasTimeFor: () => false })
  assert.deepEqual(await run(), { kind: 'shed', reason: 'scope-busy' })
  assert.deepEqual(calls, [['slot'], ['release']])
})

test('a reservation that fails releases its slot and reports the fault', async () => {
  const { calls, run } = createRig([])
  await assert.rejects(run(), /one reservation too many/)
  assert.deepEqual(calls, [['slot'], ['release']])
})

test('a cached block is found before a slot is asked for', async () => {
  const blockedUntil = new Date(Date.now() + 60_000)
  const block = { kind: 'blocked', scope: 'email', blockedUntil, lockedUserId: null } as const
  const { calls, run } = createRig([block])
  assert.deepEqual(await run(), block)
  assert.deepEqual(await run(), block)
  assert.deepEqual(calls, [['slot'], ['release']])
})

test('an attempt asks for a slot again after each decision, while it is undecided, and without one reserves nothing', async () => {
  let decisions = 0
  const { run } = createRig([], {
    admit: () => (decisions < 3 ? 'undecided' : null),
    nextDecision: async () => void decisions++,
  })
  assert.deepEqual(await run(), { kind: 'shed', reason: 'no-slot' })
  assert.equal(decisions, 3)
})
