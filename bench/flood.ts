// Sends more logins than the cores can hash, and measures other requests at the same time.
import { loopbackAddress } from './clients.ts'
import { demandOnly, IMPATIENT_MS, runClosedLoop, SATURATING, steadyRate } from './closed-loop.ts'
import { Connection, get, post } from './connection.ts'
import { type Arrival, evenSchedule, poissonSchedule, runOpenLoop } from './open-loop.ts'
import { startCpuShare } from './processes.ts'
import { emailOf, loginRequest } from './seed.ts'
import type { Service } from './service.ts'

export type Flood = {
  logins: Arrival[]
  livez: Arrival[]
  refreshes: Arrival[]
  /** The share of one core that this process used to make the flood. */
  generatorCpuShare: number
}

const LIVEZ_EVERY_MS = 50
const REFRESH_EVERY_MS = 250
/** A session may be refreshed 60 times a minute. */
const SESSIONS = 8
/** An address that the flood does not use. */
const SESSION_ADDRESS = 10_000
const REFRESH = '/api/v1/auth/refresh'

/** Logins per second at saturation, with no other load. */
export async function measureCapacity(
  { target }: Service,
  request: (index: number) => Buffer,
  durationMs: number,
): Promise<number> {
  const lanes = await runClosedLoop({
    target,
    connections: SATURATING,
    durationMs,
    request,
    retryWithinMs: IMPATIENT_MS,
  })
  demandOnly(lanes, 200, 503)
  return steadyRate(lanes, 200)
}

export async function flood(
  service: Service,
  request: (index: number) => Buffer,
  perSecond: number,
  durationMs: number,
): Promise<Flood> {
  const refreshTokens = await openSessions(service)
  const cpuShare = startCpuShare()
  const isAlive = get('/livez')
  const [logins, livez, refreshes] = await Promise.all([
    runOpenLoop({
      target: service.target,
      scheduleMs: poissonSchedule(perSecond, durationMs),
      request,
    }),
    runOpenLoop({
      target: service.ops,
      scheduleMs: evenSchedule(LIVEZ_EVERY_MS, durationMs),
      request: () => isAlive,
    }),
    runOpenLoop({
      target: service.target,
      scheduleMs: evenSchedule(REFRESH_EVERY_MS, durationMs),
      request: index => post(REFRESH, { refreshToken: refreshTokens[index % SESSIONS] }),
      onAnswer({ status, body }, index) {
        if (status === 200) refreshTokens[index % SESSIONS] = refreshTokenOf(body)
      },
    }),
  ])
  return { logins, livez, refreshes, generatorCpuShare: cpuShare() }
}

async function openSessions({ target }: Service): Promise<string[]> {
  const connection = new Connection(target, loopbackAddress(SESSION_ADDRESS))
  const refreshTokens: string[] = []
  for (let index = 0; index < SESSIONS; index++) {
    const { status, body } = await connection.send(loginRequest(emailOf(index)))
    if (status !== 200) throw new Error(`a login before the flood was answered ${status}`)
    refreshTokens.push(refreshTokenOf(body))
  }
  connection.close()
  return refreshTokens
}

function refreshTokenOf(body: Buffer): string {
  const { data }: { data: { refreshToken: string } } = JSON.parse(body.toString())
  return data.refreshToken
}
