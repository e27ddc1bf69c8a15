// Logins during attacks, in simulated time.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { isMet } from '../../bench/findings.ts'
import { fairnessTargets } from '../../bench/sections/fairness.ts'
import { playScenario, type Scenario } from './fairness-scenarios.ts'

export function proveFairness(scenarios: Scenario[]): void {
  describe('users log in during an attack from', () => {
    for (const scenario of scenarios) {
      test(`${scenario.name}, beside ${scenario.users.count} users`, async () => {
        const figures = await playScenario(scenario)
        for (const target of fairnessTargets([{ scenario, figures }])) {
          assert.ok(isMet(target), `${target.name}: ${target.figure}`)
        }
      })
    }
  })
}
