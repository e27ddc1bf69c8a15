import { BLOCKED, block, loopbackAddress } from '../clients.ts'
import { demandOnly, runClosedLoop, steadyRate } from '../closed-loop.ts'
import type { Target } from '../connection.ts'
import { type Findings, fixed, type Run } from '../findings.ts'
import { loginRequest } from '../seed.ts'
import { deploy, startBare } from '../service.ts'
import { median } from '../statistics.ts'

const CONNECTIONS = 32

type Kind = { name: string; target: Target; request: Buffer; status: number; rates: number[] }

export async function measureRefusals({ isQuick, progress }: Run): Promise<Findings> {
  const rounds = isQuick ? 2 : 6
  const sliceMs = isQuick ? 1_000 : 4_000
  const sqlite = await deploy('sqlite')
  const postgres = await deploy('postgres')
  const [onSqlite, onPostgres] = [await sqlite.start(), await postgres.start()]
  await Promise.all([block(onSqlite.target, BLOCKED), block(onPostgres.target, BLOCKED)])
  const fastify = await startBare('bare-fastify.ts', onSqlite, { DATA_DIR: sqlite.dataDir })
  const blocked = { request: loginRequest(BLOCKED), status: 429 }
  const bare: Kind = {
    name: 'bare Fastify, 200',
    target: fastify.target,
    request: blocked.request,
    status: 200,
    rates: [],
  }
  const refusals: Kind[] = [
    {
      name: 'empty email, 400',
      target: onSqlite.target,
      request: loginRequest(''),
      status: 400,
      rates: [],
    },
    { name: 'too many attempts, 429, SQLite', target: onSqlite.target, ...blocked, rates: [] },
    {
      name: 'too many attempts, 429, PostgreSQL',
      target: onPostgres.target,
      ...blocked,
      rates: [],
    },
  ]

  for (let round = 0; round <= rounds; round++) {
    for (const { name, target, request, status, rates } of [bare, ...refusals]) {
      progress(round === 0 ? `warming up: ${name}` : `round ${round} of ${rounds}: ${name}`)
      const lanes = await runClosedLoop({
        target,
        connections: CONNECTIONS,
        durationMs: sliceMs,
        request: () => request,
        addressOf: () => loopbackAddress(0),
      })
      demandOnly(lanes, status)
      if (round > 0) rates.push(steadyRate(lanes, status))
    }
  }
  await fastify.stop()
  await Promise.all([sqlite.remove(), postgres.remove()])

  const ceiling = median(bare.rates)
  return {
    title: 'refusals per second against a bare Fastify',
    tables: [
      {
        title: `Median of ${rounds} slices of ${sliceMs / 1_000} s, ${CONNECTIONS} connections, the same TLS`,
        head: ['', 'per second', 'of bare Fastify'],
        rows: [bare, ...refusals].map(({ name, rates }) => [
          name,
          fixed(median(rates)),
          fixed(median(rates) / ceiling, 2),
        ]),
      },
    ],
    targets: refusals.map(({ name, rates }) => ({
      name: `${name} ÷ bare Fastify`,
      figure: median(rates) / ceiling,
      digits: 2,
      unit: '',
      is: 'at least',
      limit: 0.5,
    })),
  }
}
