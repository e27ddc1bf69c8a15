// Compares refreshes and reads of a session per second with a server that does one update for each request.
import { statSync } from 'node:fs'
import { join } from 'node:path'
import type { EngineName } from '../../src/storage/sql/engine.ts'
import { loopbackAddress } from '../clients.ts'
import { steadyRate } from '../closed-loop.ts'
import { Connection, get, post, type Target } from '../connection.ts'
import { type Findings, fixed, type Run } from '../findings.ts'
import { CHEAP_COST, emailOf, loginRequest } from '../seed.ts'
import { CHEAP_NATIVE, type Deployment, deploy, type Service, startBare } from '../service.ts'
import {
  type Caller,
  CONNECTIONS,
  callersOf,
  callInTurns,
  ONE_ISSUER,
  openSessions,
  refreshes,
  refreshOf,
  SESSIONS,
  SESSIONS_EACH,
  type Tokens,
} from '../session-callers.ts'
import { median } from '../statistics.ts'

const ENGINES = ['sqlite', 'postgres'] as const
const ENV = { ...CHEAP_NATIVE, ...ONE_ISSUER }
/** Few enough that SQLite does not write its log back in between. */
const COUNTED = 50

type Process = { target: Target; cpuMs: () => Promise<number> }
type Kind = {
  name: string
  process: Process
  callers: Caller[]
  rates: number[]
  /** Processor time of the answering process, and how often it answered. */
  cpuMs: number
  answers: number
}
type Figure = {
  engine: EngineName
  name: string
  perSecond: number
  ratio: number
  cpuMs: number
}
type Costs = { operation: string; statements: number; walBytes: number }

export async function measureRefresh({ isQuick, progress }: Run): Promise<Findings> {
  const rounds = isQuick ? 2 : 6
  const sliceMs = isQuick ? 1_500 : 5_000
  const figures: Figure[] = []
  const costs: (Costs & { engine: EngineName })[] = []
  for (const engine of ENGINES) {
    const deployment = await deploy(engine, SESSIONS)
    const service = await deployment.start(ENV)
    progress(`${engine}: opening ${SESSIONS} sessions`)
    const sessions = await openSessions(service.target)
    const bare = await startBareUpdate(deployment, service)
    const none = { cpuMs: 0, answers: 0 }
    const kinds: Kind[] = [
      { ...none, name: 'bare update', process: bare, callers: updates(), rates: [] },
      { ...none, name: 'refresh', process: service, callers: refreshes(sessions), rates: [] },
      { ...none, name: 'GET /session', process: service, callers: reads(sessions), rates: [] },
    ]
    for (let round = 0; round <= rounds; round++) {
      for (const kind of kinds) {
        const step = round === 0 ? 'warming up' : `round ${round} of ${rounds}`
        progress(`${engine}: ${step}: ${kind.name}`)
        const beforeMs = await kind.process.cpuMs()
        const lanes = await callInTurns(kind.process.target, kind.callers, sliceMs)
        if (round === 0) continue
        kind.rates.push(steadyRate(lanes, 200))
        kind.cpuMs += (await kind.process.cpuMs()) - beforeMs
        kind.answers += lanes.flat().length
      }
    }
    await Promise.all([bare.stop(), service.stop()])
    const bareRate = median(kinds[0]?.rates ?? [])
    for (const { name, rates, cpuMs, answers } of kinds) {
      const perSecond = median(rates)
      const ratio = perSecond / bareRate
      figures.push({ engine, name, perSecond, ratio, cpuMs: cpuMs / answers })
    }
    progress(`${engine}: what one operation costs`)
    if (engine === 'postgres') await countStatements(deployment)
    const counted = await deployment.start(ENV)
    const measured = await measureCosts(deployment, counted, sessions)
    costs.push(...measured.map(cost => ({ engine, ...cost })))
    await deployment.remove()
  }
  return {
    title: `refreshes and reads of a session, ${CONNECTIONS} connections`,
    tables: [
      {
        title: 'Per second, beside a Fastify that does one update … returning for each request',
        head: ['', 'engine', 'per second', '÷ bare update', 'processor time of the process'],
        rows: figures.map(({ engine, name, perSecond, ratio, cpuMs }) => [
          name,
          engine,
          fixed(perSecond),
          fixed(ratio, 2),
          `${fixed(cpuMs, 2)} ms`,
        ]),
      },
      {
        title: 'What one operation costs the database',
        head: ['', 'engine', 'statements', 'bytes of write-ahead log'],
        rows: costs.map(({ engine, operation, statements, walBytes }) => [
          operation,
          engine,
          fixed(statements, 2),
          fixed(walBytes),
        ]),
      },
    ],
    targets: figures
      .filter(({ name }) => name !== 'bare update')
      .map(({ engine, name, ratio }) => ({
        name: `${name} ÷ bare update, ${engine}`,
        figure: ratio,
        digits: 2,
        unit: '',
        is: 'at least',
        limit: engine === 'postgres' && name === 'refresh' ? 0.4 : 0.6,
      })),
    plots: [],
    measured: { figures, costs },
  }
}

/** Each caller shows one token again and again, as an application does within the hour of its validity. */
function reads(sessions: Tokens[]): Caller[] {
  return callersOf(session => readOf(session), sessions, 1)
}

function readOf({ accessToken }: Tokens): ReturnType<Caller> {
  return { request: get('/api/v1/auth/session', `Authorization: Bearer ${accessToken}\r\n`) }
}

function updates(): Caller[] {
  return Array.from({ length: CONNECTIONS }, (_, lane) => (turn: number) => ({
    request: post('/', { id: lane * SESSIONS_EACH + (turn % SESSIONS_EACH) }),
  }))
}

/** Statements and write-ahead log of single operations, one after the other. */
async function measureCosts(
  deployment: Deployment,
  { target }: Service,
  sessions: Tokens[],
): Promise<Costs[]> {
  const connection = new Connection(target, loopbackAddress(0))
  const operations: [string, (session: Tokens) => ReturnType<Caller>][] = [
    ['refresh', refreshOf],
    ['refresh, repeated', session => refreshOf({ ...session })],
    ['GET /session', readOf],
    ['logout', ({ refreshToken }) => ({ request: post('/api/v1/auth/logout', { refreshToken }) })],
  ]
  const costs: Costs[] = []
  const counter = await startCounting(deployment)
  for (let i = 0; i < COUNTED; i++) {
    await send(connection, { request: loginRequest(emailOf(i, CHEAP_COST)) })
  }
  costs.push({ operation: 'login', ...(await counter()) })
  for (const [operation, act] of operations) {
    // Repetitions need tokens that were replaced a moment ago.
    const given = sessions.slice(0, COUNTED)
    const used = operation === 'refresh, repeated' ? given.map(session => ({ ...session })) : given
    if (used !== given) for (const session of given) await send(connection, refreshOf(session))
    const counter = await startCounting(deployment)
    for (const session of used) await send(connection, act(session))
    costs.push({ operation, ...(await counter()) })
  }
  connection.close()
  return costs
}

async function send(connection: Connection, { request, onAnswer }: ReturnType<Caller>) {
  const { status, body } = await connection.send(request)
  if (status !== 200) throw new Error(`answered ${status}: ${body}`)
  onAnswer?.(body)
}

/** From the next connection on. */
async function countStatements({ database }: Deployment): Promise<void> {
  await database.rows('create extension pg_stat_statements')
  const [row] = await database.rows('select current_database() as name')
  await database.rows(`alter database "${row?.name}" set pg_stat_statements.track = 'top'`)
}

/** Returns a function that tells what each of the operations since has cost. */
async function startCounting({ engine, database, dataDir }: Deployment) {
  if (engine === 'sqlite') {
    // Starts a new log, which is too short to be written back during the measurement.
    await database.rows('pragma wal_checkpoint(truncate)')
    return async () => {
      const walBytes = statSync(join(dataDir, 'login.db-wal')).size
      return { statements: Number.NaN, walBytes: walBytes / COUNTED }
    }
  }
  const read = async () => {
    const [row] = await database.rows(`select pg_current_wal_insert_lsn() - '0/0' as wal,
      (select sum(calls) from pg_stat_statements where dbid = (select oid from pg_database
        where datname = current_database()) and query !~ 'pg_stat_statements') as calls`)
    return { wal: Number(row?.wal), calls: Number(row?.calls) }
  }
  const before = await read()
  return async () => {
    const after = await read()
    return {
      statements: (after.calls - before.calls) / COUNTED,
      walBytes: (after.wal - before.wal) / COUNTED,
    }
  }
}

/** Creates the table that the server updates, and uses the certificate of the service. */
async function startBareUpdate({ database, dataDir }: Deployment, service: Service) {
  await database.rows('create table bare_updates (id integer primary key, used_at text not null)')
  await database.rows(`insert into bare_updates with recursive n(i) as
    (select 0 union all select i + 1 from n where i < ${SESSIONS - 1}) select i, '' from n`)
  const { config } = database
  const databaseUrl = config.engine === 'postgres' ? config.url : ''
  return startBare('bare-update.ts', service, { DATA_DIR: dataDir, DATABASE_URL: databaseUrl })
}
