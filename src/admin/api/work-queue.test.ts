import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createWorkQueue, TooMuchWork } from './work-queue.ts'

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
