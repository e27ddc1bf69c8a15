// Logins during attacks, in simulated time.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { OFFICES, playScenario, type Scenario, WITHSTOOD } from './fairness-scenarios.ts'

export function proveFairness(scenarios: Scenario[]): void {
  describe('users log in during an attack from', () => {
    for (const scenario of scenarios) {
      test(`${scenario.name}, beside ${scenario.users.count} users`, async () => {
        const { strangers, knownDevices } = await playScenario(scenario)
        const figures = JSON.stringify({ strangers, knownDevices })
        if (WITHSTOOD.includes(scenario)) {
          assert.ok(strangers.first >= 28 && strangers.inTime >= 29, figures)
          assert.ok(knownDevices.first >= 29 && knownDevices.inTime >= 30, figures)
        }
        if (OFFICES.includes(scenario)) assert.ok(strangers.inTime >= 36, figures)
      })
    }
  })
}
