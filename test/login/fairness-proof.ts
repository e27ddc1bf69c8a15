// Logins during attacks, in simulated time. The same figures are in docs/performance.md.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { describe, test } from 'node:test'
import { isMet } from '../../bench/findings.ts'
import { fairnessTables, fairnessTargets, type Played } from '../../bench/sections/fairness.ts'
import { playScenario, type Scenario } from './fairness-scenarios.ts'

const PERFORMANCE = resolve(import.meta.dirname, '../../docs/performance.md')

export function proveFairness(scenarios: Scenario[]): void {
  describe('users log in during an attack from', () => {
    const all: Played[] = []
    for (const scenario of scenarios) {
      test(`${scenario.name}, beside ${scenario.users.count} users`, async () => {
        const played = { scenario, figures: await playScenario(scenario) }
        all.push(played)
        for (const target of fairnessTargets([played])) {
          assert.ok(isMet(target), `${target.name}: ${target.figure}`)
        }
      })
    }

    test('the figures in the document are these: else run npm run bench -- fairness', () => {
      const text = readFileSync(PERFORMANCE, 'utf8')
      for (const { rows } of fairnessTables(all)) {
        for (const row of rows) assert.ok(text.includes(`| ${row.join(' | ')} |`), row.join(' '))
      }
    })
  })
}
