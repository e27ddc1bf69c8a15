import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Terminal } from '../terminal/terminal.ts'
import { showProgress } from './progress.ts'

test('the end is foretold while passwords are hashed, from what was hashed', async () => {
  const shown: string[] = []
  const terminal = { progress: (sentence: string) => shown.push(sentence) } as unknown as Terminal
  const counts = { added: 0, updated: 0, unchanged: 0, skipped: 0, rejected: 0 }
  const progress = showProgress(terminal, counts, 1_000)
  async function* source() {
    yield Buffer.alloc(1_000)
  }
  for await (const _ of progress.counting(source())) {
    counts.unchanged = 50
    progress.show(100, false)
    for (let added = 0; added <= 2; added++) {
      counts.added = added
      progress.show(100, true)
    }
  }
  assert.match(shown[0] ?? '', /^\[#{10}\.{10}\] 50 % · 100 rows read, 50 done, [\d,]+ per second$/)
  assert.doesNotMatch(shown[1] ?? '', /expected end/)
  assert.match(shown[3] ?? '', / 52 % .*, expected end \d{4}-\d\d-\d\d \d\d:\d\d UTC$/)
})
