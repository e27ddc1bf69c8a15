import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { simulateHasher } from '../../test/login/simulated-hasher.ts'
import { makeScopes } from '../../test/storage/fixtures.ts'
import { openTestStore } from '../../test/support/engines.ts'
import type { Reservation } from '../domain/attempt.ts'
import { admit } from './admission.ts'
import { createHashQueue, type HashQueue } from './hash-queue.ts'
import { createThrottle } from './throttle.ts'

const COST = 10
const CLAIM = { network: 'n', client: 'c', account: 'a', isKnownDevice: false }
const SCOPES = makeScopes()
const { store } = await openTestStore('sqlite')
const ADMITTED: Reservation = { kind: 'admitted', user: null }
const busyIn = (key: string): Reservation => ({ kind: 'busy', user: null, key, capacity: 1 })

/** A store that gives these answers, and a queue whose calls are noted. */
function createRig(answers: Reservation[], more: Partial<HashQueue> = {}, waitMs = 60_000) {
  const calls: string[] = []
  const reserve = async () => answers.shift() ?? assert.fail('one reservation too many')
  // For this throttle no time passes, so that no cached block gets old.
  const throttle = createThrottle(
    { ...store.attempts, reserve },
    () => new Date(),
    () => 0,
  )
  const { hasher } = simulateHasher({ threads: 1, roundMs: [0.1] })
  const queue = createHashQueue(hasher, { cost: COST, loginTimeMs: 5_000 }, () => 0)
  const hashQueue: HashQueue = {
    ...queue,
    admit(claim) {
      calls.push('slot')
      const slot = queue.admit(claim)
      const release = () => {
        calls.push('release')
        slot?.release()
      }
      return slot && { ...slot, release }
    },
    ...more,
  }
  const deps = { throttle, hashQueue, clock: () => new Date() }
  const run = () => admit(deps, CLAIM, SCOPES, performance.now() + waitMs)
  return { calls, throttle, run }
}

test('an attempt waits for one busy scope after the other, without a slot, and lets the next one ask', async () => {
  const { calls, throttle, run } = createRig([busyIn('a'), busyIn('a'), busyIn('b'), ADMITTED])
  const running = run()
  await setImmediate()
  const other = throttle.joinLine('a')?.turn(performance.now() + 60_000)
  assert.equal((await running).kind, 'admitted')
  assert.deepEqual(calls, [...Array(3).fill(['slot', 'release']).flat(), 'slot'])
  assert.equal(await other, true)
})

test('an attempt without time for its scope, or with too many before it, is shed', async () => {
  const late = createRig([busyIn('a')], {}, 0)
  assert.deepEqual(await late.run(), { kind: 'shed', reason: 'scope-busy' })
  const { throttle, run } = createRig([busyIn('a')])
  while (throttle.joinLine('a')) {}
  assert.deepEqual(await run(), { kind: 'shed', reason: 'scope-busy' })
})

test('an attempt without a slot reserves nothing', async () => {
  const { run } = createRig([], { admit: () => null })
  assert.deepEqual(await run(), { kind: 'shed', reason: 'no-slot' })
})

test('a cached block is found before a slot is asked for', async () => {
  const blockedUntil = new Date(Date.now() + 60_000)
  const block = { kind: 'blocked', scope: 'email', blockedUntil, lockedUserId: null } as const
  const { calls, run } = createRig([block])
  assert.deepEqual(await run(), block)
  assert.deepEqual(await run(), block)
  assert.deepEqual(calls, ['slot', 'release'])
})
