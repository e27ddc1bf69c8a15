import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { capacityTable } from '../bench/capacity-model.ts'

test('the simulation yields the table of docs/scaling.md from the measured constants', () => {
  const { capacity } = JSON.parse(readFileSync('docs/performance.json', 'utf8'))
  const document = readFileSync('docs/scaling.md', 'utf8')
  const { head, rows } = capacityTable(capacity.measured)
  for (const row of [head, ...rows]) {
    const line = `| ${row.join(' | ')} |`
    assert.ok(document.includes(line), line)
  }
})
