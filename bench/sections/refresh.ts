// Compares refreshes and reads of a session per second with a server that does one update for each request.
import type { EngineName } from '../../src/storage/sql/engine.ts'
import { steadyRate } from '../closed-loop.ts'
import { get, post, type Target } from '../connection.ts'
import { type Findings, fixed, type Run } from '../findings.ts'
import { CHEAP, type Deployment, deploy, type Service, startBare } from '../service.ts'
import {
  type Caller,
  CONNECTIONS,
  callersOf,
  callInTurns,
  openSessions,
  refreshes,
  SESSIONS,
  SESSIONS_EACH,
  type Tokens,
} from '../session-callers.ts'
import { median } from '../statistics.ts'

const ENGINES = ['sqlite', 'postgres'] as const

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

export async function measureRefresh({ isQuick, progress }: Run): Promise<Findings> {
  const rounds = isQuick ? 2 : 6
  const sliceMs = isQuick ? 1_500 : 5_000
  const figures: Figure[] = []
  for (const engine of ENGINES) {
    const deployment = await deploy(engine, SESSIONS)
    const service = await deployment.start(CHEAP)
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
    await bare.stop()
    const bareRate = median(kinds[0]?.rates ?? [])
    for (const { name, rates, cpuMs, answers } of kinds) {
      const perSecond = median(rates)
      const ratio = perSecond / bareRate
      figures.push({ engine, name, perSecond, ratio, cpuMs: cpuMs / answers })
    }
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
  }
}

/** Each caller shows one token again and again, as an application does within the hour of its validity. */
function reads(sessions: Tokens[]): Caller[] {
  const act = ({ accessToken }: Tokens) => ({
    request: get('/api/v1/auth/session', `Authorization: Bearer ${accessToken}\r\n`),
  })
  return callersOf(act, sessions, 1)
}

function updates(): Caller[] {
  return Array.from({ length: CONNECTIONS }, (_, lane) => (turn: number) => ({
    request: post('/', { id: lane * SESSIONS_EACH + (turn % SESSIONS_EACH) }),
  }))
}

/** Creates the table that the server updates, and uses the certificate of the service. */
async function startBareUpdate({ database, dataDir }: Deployment, service: Service) {
  await database.run('create table bare_updates (id integer primary key, used_at text not null)')
  await database.run(`insert into bare_updates with recursive n(i) as
    (select 0 union all select i + 1 from n where i < ${SESSIONS - 1}) select i, '' from n`)
  const { config } = database
  const databaseUrl = config.engine === 'postgres' ? config.url : ''
  return startBare('bare-update.ts', service, { DATA_DIR: dataDir, DATABASE_URL: databaseUrl })
}
