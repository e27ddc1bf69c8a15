import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createFailureLimit, createRequestLimit, createWorkQueue, TooMuchWork } from './limits.ts'

test('a token has 200 requests at once, then 100 per second, and never more than 200', () => {
  let nowMs = 0
  const take = createRequestLimit(() => nowMs)
  const takeAll = () => {
    let taken = 0
    while (take('a')) taken++
    return taken
  }
  assert.equal(takeAll(), 200)
  nowMs += 10
  assert.equal(takeAll(), 1)
  nowMs += 1_000
  assert.equal(takeAll(), 100)
  nowMs += 3_600_000
  assert.equal(takeAll(), 200)
  assert.ok(take('b'))
})

test('a client has 20 failures in a minute from the first; further ones do not extend it', () => {
  let nowMs = 0
  const count = createFailureLimit(() => nowMs)
  for (let i = 0; i < 20; i++) assert.equal(count('a'), null)
  nowMs += 30_000
  for (let i = 0; i < 100; i++) assert.equal(count('a'), 30)
  assert.equal(count('b'), null)
  nowMs += 29_999
  assert.equal(count('a'), 1)
  nowMs += 1
  assert.equal(count('a'), null)
})

test('hashes run one at a time in their order, 16 may wait, and a failed one lets the next run', async () => {
  const limit = createWorkQueue()
  const order: number[] = []
  let running = 0
  const hash = (number: number) => async () => {
    running++
    assert.equal(running, 1)
    await new Promise(resolve => setTimeout(resolve, 1))
    running--
    order.push(number)
    if (number === 3) throw new Error('failed')
    return number
  }
  const started = Array.from({ length: 20 }, (_, i) => limit(hash(i)))
  const ended = await Promise.allSettled(started)
  assert.deepEqual(
    order,
    Array.from({ length: 17 }, (_, i) => i),
  )
  for (const [i, outcome] of ended.entries()) {
    if (outcome.status === 'fulfilled') assert.equal(outcome.value, i)
    else assert.equal(outcome.reason instanceof TooMuchWork, i > 16)
  }
  assert.equal(await limit(hash(20)), 20)
})
