// What Prometheus can scrape. No label takes text from a request: each has a fixed set of values, or is the name
// that an administrator gave to a token.
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from '@prometheus-io/client'
import packageJson from '../../package.json' with { type: 'json' }
import type { ScopeName } from '../domain/attempt.ts'
import type { OperationName } from '../domain/operations.ts'
import { addGauges, type Sources } from './gauges.ts'

export type Metrics = ReturnType<typeof createMetrics>

/** The outcomes are those of the log: `login.succeeded`, `login.failed` and so on; `error` is a 500. */
const OUTCOMES = [
  ...(['succeeded', 'failed', 'throttled', 'shed', 'error'] as const),
  ...(['change_required', 'second_factor_required', 'unfit_password', 'unfit_factor'] as const),
]
export type LoginLabel = (typeof OUTCOMES)[number]

const SCOPES = ['pair', 'email', 'client', 'network', 'device'] as const satisfies ScopeName[]

const REASONS = [
  ...(['logout', 'user', 'reuse', 'replaced', 'abandoned', 'limit'] as const),
  ...(['password', 'second-factor'] as const),
]
export type EndReason = (typeof REASONS)[number]

/** How the caller of a repeated refresh was recognised; `refused` if it was not. */
const REPEATS = ['id', 'client', 'refused'] as const

const CONNECTION_LIMITS = ['client', 'total', 'handshakes'] as const
const LIMIT_RESULTS = ['closed', 'refused'] as const

/** They reach from a refusal to the longest login. */
const REQUEST_BUCKETS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1, 2, 5]
/** They reach from a read in memory to the time limit of an operation. */
const STATEMENT_BUCKETS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2]

/** Frequent events are recorded in batches: one by one, they would find the library's code out of the caches. */
const BATCH = 256

export function createMetrics(engine: string) {
  const register = new Registry()
  const registers = [register]
  // Its default is 100 ms, which would wake an idle service ten times a second.
  collectDefaultMetrics({ register, eventLoopUtilizationTimeout: 1_000 })

  const counter = <L extends string>(name: string, help: string, ...labelNames: L[]) =>
    new Counter({ name, help, labelNames, registers })
  const histogram = <L extends string>(
    name: string,
    help: string,
    labelNames: L[] = [],
    buckets = REQUEST_BUCKETS,
  ) => new Histogram({ name, help, labelNames, buckets, registers })
  const attempts = counter('login_attempts_total', 'Login attempts by outcome', 'outcome')
  const durations = histogram(
    'login_duration_seconds',
    'Time of a login, from the validated request to its outcome',
    ['outcome'],
  )
  const blocks = counter(
    'throttle_blocks_total',
    'Login attempts answered with 429, by the scope that is blocked',
    'scope',
  )
  const waits = counter(
    'throttle_waits_total',
    'Reservations that found a scope busy, by that scope; the attempt waits and asks again',
    'scope',
  )
  const opened = counter('sessions_opened_total', 'Sessions opened by logins')
  const passwordChanges = counter(
    'password_changes_total',
    'Passwords that users have changed; each is a login that succeeded',
  )
  const ended = counter('sessions_ended_total', 'Sessions ended by requests, by reason', 'reason')
  const repeats = counter(
    'refresh_repeats_total',
    'Refreshes with a token that was replaced in the last 60 seconds, by what identified the caller',
    'by',
  )
  const adminReads = counter(
    'admin_reads_total',
    'Requests to the admin API that change nothing, by the name of their token',
    'token',
  )
  const plainHttp = counter(
    'proxy_plain_http_total',
    'Requests of trusted proxies in plain HTTP on the public port, which speaks TLS, answered with 400',
  )
  const limitedConnections = counter(
    'connections_limited_total',
    'Connections that a limit has closed or refused: of the client, of all, or of unfinished handshakes',
    ...(['limit', 'result'] as const),
  )
  // A series that begins with its first event hides that event from rate().
  for (const outcome of OUTCOMES) attempts.inc({ outcome }, 0)
  for (const scope of SCOPES) {
    blocks.inc({ scope }, 0)
    waits.inc({ scope }, 0)
  }
  for (const reason of REASONS) ended.inc({ reason }, 0)
  for (const by of REPEATS) repeats.inc({ by }, 0)
  for (const limit of CONNECTION_LIMITS) {
    for (const result of LIMIT_RESULTS) limitedConnections.inc({ limit, result }, 0)
  }

  const queueWait = histogram(
    'password_queue_wait_seconds',
    'Time from the reservation of an attempt to the beginning of its hash',
  )
  const hash = histogram(
    'password_hash_seconds',
    'Time of one password hash, beside the others of its thread',
  )
  const requests = histogram(
    'http_request_duration_seconds',
    'Time of a request by the pattern of its route and the status of its answer',
    ['method', 'route', 'status'],
  )
  const operations = histogram(
    'database_operation_seconds',
    'Time of an operation of the store, waiting for a connection included',
    ['operation', 'result'],
    STATEMENT_BUCKETS,
  )
  new Gauge({
    name: 'login_service_build_info',
    help: 'Always 1; the labels name the version',
    labelNames: ['version', 'node', 'engine'],
    registers,
  }).set({ version: packageJson.version, node: process.version, engine }, 1)

  const events: (() => void)[] = []
  const recordAll = () => {
    for (const record of events.splice(0)) record()
  }
  const soon = (record: () => void) => {
    if (events.push(record) >= BATCH) recordAll()
  }

  return {
    contentType: register.contentType,
    text() {
      recordAll()
      return register.metrics()
    },

    loginEnded: (outcome: LoginLabel, seconds: number) =>
      soon(() => {
        attempts.inc({ outcome })
        durations.observe({ outcome }, seconds)
      }),
    blocked: (scope: ScopeName) => soon(() => blocks.inc({ scope })),
    waited: (scope: ScopeName) => waits.inc({ scope }),
    sessionOpened: () => opened.inc(),
    passwordChanged: () => passwordChanges.inc(),
    sessionEnded: (reason: EndReason) => ended.inc({ reason }),
    refreshRepeated: (by: (typeof REPEATS)[number]) => repeats.inc({ by }),
    plainHttpReceived: () => plainHttp.inc(),
    connectionLimited: (
      limit: (typeof CONNECTION_LIMITS)[number],
      result: (typeof LIMIT_RESULTS)[number],
    ) => limitedConnections.inc({ limit, result }),
    adminRead: (token: string) => adminReads.inc({ token }),
    hashStarted: (waitedMs: number) => soon(() => queueWait.observe(waitedMs / 1000)),
    hashEnded: (ms: number) => soon(() => hash.observe(ms / 1000)),
    answered: (method: string, route: string, status: number, ms: number) =>
      soon(() => requests.observe({ method, route, status }, ms / 1000)),
    operationEnded: (operation: OperationName, isDone: boolean, ms: number) =>
      soon(() => operations.observe({ operation, result: isDone ? 'done' : 'error' }, ms / 1000)),

    read: (sources: Sources) => addGauges(registers, sources),
  }
}
