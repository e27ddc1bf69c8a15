// What populations of different sizes demand: a model with measured constants. The sizes of rows are measured
// here, the other constants come from the last full run of other sections.
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type Constants, capacityTable } from '../capacity-model.ts'
import { type Findings, fixed, type Run } from '../findings.ts'
import { describeMachine } from '../machine.ts'
import { seedUsers } from '../seed.ts'
import { type Deployment, deploy } from '../service.ts'
import { median } from '../statistics.ts'

const SESSIONS_EACH = 2

export async function measureCapacity({ isQuick, progress }: Run): Promise<Findings> {
  const users = isQuick ? 20_000 : 200_000
  const deployment = await deploy('postgres')
  progress(`the size of ${users} users with ${SESSIONS_EACH} sessions each`)
  await seedUsers(deployment.database.config, { from: 0, to: users, sessionsEach: SESSIONS_EACH })
  const rowBytes = await sizesOf(deployment)
  await deployment.remove()
  const constants = { ...(await readConstants()), rowBytes }
  const { loginsPerCore, serviceMs, statements, walBytes } = constants
  return {
    title: 'what populations of different sizes demand',
    tables: [
      {
        title: 'Constants, on PostgreSQL',
        head: ['', 'login', 'refresh', 'from'],
        rows: [
          ['logins per second and core', fixed(loginsPerCore, 2), '', 'ceiling'],
          [
            'processor time besides the hash',
            `${fixed(serviceMs.login, 2)} ms`,
            `${fixed(serviceMs.refresh, 2)} ms`,
            'overhead, refresh',
          ],
          [
            'statements, each a round trip',
            fixed(statements.login),
            fixed(statements.refresh),
            'refresh',
          ],
          ['bytes of write-ahead log', fixed(walBytes.login), fixed(walBytes.refresh), 'refresh'],
        ],
      },
      {
        title: 'Bytes of a row with all its indexes',
        head: ['user', 'session', 'refresh token'],
        rows: [[fixed(rowBytes.user), fixed(rowBytes.session), fixed(rowBytes.token)]],
      },
      capacityTable(constants),
    ],
    targets: [],
    plots: [],
    measured: constants,
  }
}

async function sizesOf({ database }: Deployment): Promise<Constants['rowBytes']> {
  const bytesPerRow = async (table: string) => {
    const [row] = await database.rows(
      `select pg_total_relation_size('${table}') / (select count(*) from ${table}) as bytes`,
    )
    return Number(row?.bytes)
  }
  return {
    user: await bytesPerRow('users'),
    session: await bytesPerRow('sessions'),
    token: await bytesPerRow('refresh_tokens'),
  }
}

type Measured = {
  ceiling: { services: { name: string; rates: number[] }[] }
  overhead: { costs: { engine: string; name: string; withoutHashMs: number }[] }
  refresh: {
    figures: { engine: string; name: string; cpuMs: number }[]
    costs: { engine: string; operation: string; statements: number; walBytes: number }[]
  }
}

async function readConstants(): Promise<Omit<Constants, 'rowBytes'>> {
  const { processor } = describeMachine()
  const file = join(import.meta.dirname, '../../docs/performance.json')
  const sections = JSON.parse(await readFile(file, 'utf8'))
  const measured = <Name extends keyof Measured>(name: Name): Measured[Name] => {
    const section = sections[name]?.[processor]
    if (!section) throw new Error(`measure the section ${name} on this processor first`)
    return section.measured
  }
  const ofPostgres = <T extends { engine: string }>(rows: T[], isRight: (row: T) => boolean): T => {
    const found = rows.find(row => row.engine === 'postgres' && isRight(row))
    if (!found) throw new Error('a figure for PostgreSQL is missing')
    return found
  }
  const { figures, costs } = measured('refresh')
  const service = measured('ceiling').services.find(({ name }) => name === 'lanes, postgres')
  const { cores } = sections.ceiling[processor].machine
  const login = ofPostgres(costs, ({ operation }) => operation === 'login')
  const refresh = ofPostgres(costs, ({ operation }) => operation === 'refresh')
  return {
    loginsPerCore: median(service?.rates ?? []) / cores,
    serviceMs: {
      login: ofPostgres(measured('overhead').costs, ({ name }) => name === 'login, 200')
        .withoutHashMs,
      refresh: ofPostgres(figures, ({ name }) => name === 'refresh').cpuMs,
    },
    statements: { login: login.statements, refresh: refresh.statements },
    walBytes: { login: login.walBytes, refresh: refresh.walBytes },
  }
}
