import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createProgress } from './progress.ts'

test('rows done and rows in the file are shown, and the end while passwords are hashed', () => {
  let nowMs = Date.parse('2030-01-01T00:00:00Z')
  const progress = createProgress(10_000, () => nowMs)
  const hour = 3_600_000
  const steps: [afterMs: number, done: number, isHashing: boolean, shown: string][] = [
    [1_000, 5_000, false, '[##########..........] 5,000 of 10,000 rows, 5,000 per second'],
    [0, 5_000, true, '[##########..........] 5,000 of 10,000 rows, 5,000 per second'],
    [
      ...([hour - 1_000, 6_000, true] as const),
      '[############........] 6,000 of 10,000 rows, 2 per second, expected end 2030-01-01 04:59 UTC',
    ],
    [hour, 10_000, false, '[####################] 10,000 of 10,000 rows, 1 per second'],
  ]
  for (const [afterMs, done, isHashing, shown] of steps) {
    nowMs += afterMs
    assert.equal(progress(done, isHashing), shown)
  }
})
