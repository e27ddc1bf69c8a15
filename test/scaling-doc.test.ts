import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { type Constants, capacityTable } from '../bench/capacity-model.ts'
import { fillIn } from '../bench/output.ts'

test('the measured tables are those of docs/performance.json: else run npm run bench -- fairness', () => {
  const results = JSON.parse(readFileSync('docs/performance.json', 'utf8'))
  for (const file of ['docs/performance.md', 'docs/scaling.md']) {
    const document = readFileSync(file, 'utf8')
    assert.equal(fillIn(document, results), document)
  }
})

test('the simulation yields the table of docs/scaling.md from the measured constants', () => {
  const { capacity } = JSON.parse(readFileSync('docs/performance.json', 'utf8'))
  const document = readFileSync('docs/scaling.md', 'utf8')
  for (const { measured } of Object.values<{ measured: Constants }>(capacity)) {
    const { head, rows } = capacityTable(measured)
    for (const row of [head, ...rows]) {
      const line = `| ${row.join(' | ')} |`
      assert.ok(document.includes(line), line)
    }
  }
})
