// Plays attacks on the hash queue in simulated time. The figures do not depend on the machine, and
// test/login/fairness.slow.test.ts finds the same ones.
import {
  BEYOND,
  type FairnessFigures,
  OFFICES,
  playScenario,
  type Scenario,
  WITHSTOOD,
} from '../../test/login/fairness-scenarios.ts'
import { type Target as Figure, type Findings, fixed, type Run, type Table } from '../findings.ts'

export type Played = { scenario: Scenario; figures: FairnessFigures }

export async function measureFairness({ progress }: Run): Promise<Findings> {
  const played: Played[] = []
  for (const scenario of [...WITHSTOOD, ...OFFICES, ...BEYOND]) {
    progress(scenario.name)
    played.push({ scenario, figures: await playScenario(scenario) })
  }
  return {
    title: 'logins during attacks, simulated',
    tables: fairnessTables(played),
    targets: fairnessTargets(played),
    plots: [],
    measured: played.map(({ scenario: { name }, figures }) => ({ name, ...figures })),
  }
}

export function fairnessTables(played: Played[]): Table[] {
  const users = {
    title: 'Of 30 strangers and 30 known devices, so many succeed',
    head: [
      'attacker',
      'strangers at once',
      'within 10 s',
      'known devices at once',
      'within 10 s',
      'attacker’s logins /s',
    ],
    rows: rowsOf(played, [...WITHSTOOD, ...BEYOND]).map(({ scenario, figures }) => [
      scenario.name,
      String(figures.strangers.first),
      String(figures.strangers.inTime),
      String(figures.knownDevices.first),
      String(figures.knownDevices.inTime),
      fixed(figures.attackerPerSecond, 1),
    ]),
  }
  const office = {
    title:
      'Of 40 users in an office, which all log in at the same moment from one address, so many succeed',
    head: ['attacker from elsewhere', 'at once', 'within 10 s', 'attacker’s logins /s'],
    rows: rowsOf(played, OFFICES).map(({ scenario, figures }) => [
      scenario.name,
      String(figures.strangers.first),
      String(figures.strangers.inTime),
      fixed(figures.attackerPerSecond, 1),
    ]),
  }
  return [users, office]
}

/** The fewest successes in any of the scenarios that the service withstands. */
export function fairnessTargets(played: Played[]): Figure[] {
  const target = (
    name: string,
    limit: number,
    scenarios: Scenario[],
    countOf: (figures: FairnessFigures) => number,
  ): Figure[] => {
    const counts = rowsOf(played, scenarios).map(({ figures }) => countOf(figures))
    const figure = Math.min(...counts)
    return counts.length > 0 ? [{ name, figure, digits: 0, unit: '', is: 'at least', limit }] : []
  }
  return [
    ...target('strangers at once', 28, WITHSTOOD, ({ strangers }) => strangers.first),
    ...target('strangers within 10 s', 29, WITHSTOOD, ({ strangers }) => strangers.inTime),
    ...target('known devices at once', 29, WITHSTOOD, ({ knownDevices }) => knownDevices.first),
    ...target(
      'known devices within 10 s',
      30,
      WITHSTOOD,
      ({ knownDevices }) => knownDevices.inTime,
    ),
    ...target('users in an office within 10 s', 36, OFFICES, ({ strangers }) => strangers.inTime),
  ]
}

function rowsOf(played: Played[], scenarios: Scenario[]): Played[] {
  return played.filter(({ scenario }) => scenarios.includes(scenario))
}
