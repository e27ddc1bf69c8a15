import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createWorkQueue, TooMuchWork } from './work-queue.ts'

test('one operation runs at a time, so many wait in their order, and the others are refused', async () => {
  const queue = createWorkQueue(2)
  const begun: number[] = []
  const first = Promise.withResolvers<void>()
  const operations = [0, 1, 2].map(index =>
    queue(async () => {
      begun.push(index)
      if (index === 0) await first.promise
      if (index === 1) throw new Error('failed')
      return index
    }),
  )
  await assert.rejects(
    queue(async () => 3),
    TooMuchWork,
  )
  assert.deepEqual(begun, [0])
  first.resolve()
  const outcomes = (await Promise.allSettled(operations)).map(({ status }) => status)
  assert.deepEqual(outcomes, ['fulfilled', 'rejected', 'fulfilled'])
  assert.deepEqual(begun, [0, 1, 2])
  assert.equal(await queue(async () => 4), 4)
})
