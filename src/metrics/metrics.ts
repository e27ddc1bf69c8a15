// What Prometheus can scrape. No label takes text from a request: each has a fixed set of values.
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from '@prometheus-io/client'
import packageJson from '../../package.json' with { type: 'json' }
import type { HashingSpeed } from '../bcrypt/hasher.ts'
import type { ScopeName } from '../domain/attempt.ts'
import type { OperationName } from '../domain/operations.ts'

export type Metrics = ReturnType<typeof createMetrics>

/** The outcomes are those of the log: `login.succeeded`, `login.failed` and so on; `error` is a 500. */
const OUTCOMES = [
  'succeeded',
  'failed',
  'throttled',
  'shed',
  'error',
  'change_required',
  'unfit_password',
] as const
export type LoginLabel = (typeof OUTCOMES)[number]

const SCOPES = ['pair', 'email', 'client', 'network', 'device'] as const satisfies ScopeName[]

const REASONS = ['logout', 'user', 'reuse', 'replaced', 'abandoned', 'limit', 'password'] as const
export type EndReason = (typeof REASONS)[number]

/** How the caller of a repeated refresh was recognised; `refused` if it was not. */
const REPEATS = ['id', 'client', 'refused'] as const
export type RepeatLabel = (typeof REPEATS)[number]

/** From a refusal to the longest login. */
const REQUEST_BUCKETS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1, 2, 5]
/** From a read in memory to the time limit of an operation. */
const STATEMENT_BUCKETS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2]

/** Values that are read when they are scraped. */
export type Sources = {
  queueDepth: () => number
  speed: () => HashingSpeed
  /** Null if the service has no certificate of its own. */
  certificateExpiry: () => Date | null
  signingSince: () => Date
  wasReady: () => boolean
  clockOffsetMs: () => number
  purgedAt: () => Date
  lostLogLines: () => number
  /** Null for SQLite. */
  connections: (() => Promise<Record<string, number> | null>) | null
}

export function createMetrics(engine: string) {
  const registers = [new Registry()]
  const [register] = registers as [Registry]
  collectDefaultMetrics({ register })

  const attempts = new Counter({
    name: 'login_attempts_total',
    help: 'Login attempts by outcome',
    labelNames: ['outcome'],
    registers,
  })
  const durations = new Histogram({
    name: 'login_duration_seconds',
    help: 'Time of a login, from the validated request to its outcome',
    labelNames: ['outcome'],
    buckets: REQUEST_BUCKETS,
    registers,
  })
  const blocks = new Counter({
    name: 'throttle_blocks_total',
    help: 'Login attempts answered with 429, by the scope that is blocked',
    labelNames: ['scope'],
    registers,
  })
  const waits = new Counter({
    name: 'throttle_waits_total',
    help: 'Reservations that found a scope busy, by that scope; the attempt waits and asks again',
    labelNames: ['scope'],
    registers,
  })
  const opened = new Counter({
    name: 'sessions_opened_total',
    help: 'Sessions opened by logins',
    registers,
  })
  const passwordChanges = new Counter({
    name: 'password_changes_total',
    help: 'Passwords that users have changed; each is a login that succeeded',
    registers,
  })
  const ended = new Counter({
    name: 'sessions_ended_total',
    help: 'Sessions ended by requests, by reason',
    labelNames: ['reason'],
    registers,
  })
  const repeats = new Counter({
    name: 'refresh_repeats_total',
    help: 'Refreshes with a token that was replaced in the last 60 seconds, by what identified the caller',
    labelNames: ['by'],
    registers,
  })
  // A series that begins with its first event hides that event from rate().
  for (const outcome of OUTCOMES) attempts.inc({ outcome }, 0)
  for (const scope of SCOPES) {
    blocks.inc({ scope }, 0)
    waits.inc({ scope }, 0)
  }
  for (const reason of REASONS) ended.inc({ reason }, 0)
  for (const by of REPEATS) repeats.inc({ by }, 0)

  const queueWait = new Histogram({
    name: 'password_queue_wait_seconds',
    help: 'Time from the reservation of an attempt to the beginning of its hash',
    buckets: REQUEST_BUCKETS,
    registers,
  })
  const hash = new Histogram({
    name: 'password_hash_seconds',
    help: 'Time of one password hash, beside the others of its thread',
    buckets: REQUEST_BUCKETS,
    registers,
  })
  const requests = new Histogram({
    name: 'http_request_duration_seconds',
    help: 'Time of a request by the pattern of its route and the status of its answer',
    labelNames: ['method', 'route', 'status'],
    buckets: REQUEST_BUCKETS,
    registers,
  })
  const operations = new Histogram({
    name: 'database_operation_seconds',
    help: 'Time of an operation of the store, waiting for a connection included',
    labelNames: ['operation', 'result'],
    buckets: STATEMENT_BUCKETS,
    registers,
  })
  new Gauge({
    name: 'login_service_build_info',
    help: 'Always 1; the labels name the version',
    labelNames: ['version', 'node', 'engine'],
    registers,
  }).set({ version: packageJson.version, node: process.version, engine }, 1)

  return {
    contentType: register.contentType,
    text: () => register.metrics(),

    loginEnded(outcome: LoginLabel, seconds: number): void {
      attempts.inc({ outcome })
      durations.observe({ outcome }, seconds)
    },
    blocked: (scope: ScopeName) => blocks.inc({ scope }),
    waited: (scope: ScopeName) => waits.inc({ scope }),
    sessionOpened: () => opened.inc(),
    passwordChanged: () => passwordChanges.inc(),
    sessionEnded: (reason: EndReason) => ended.inc({ reason }),
    refreshRepeated: (by: RepeatLabel) => repeats.inc({ by }),
    hashStarted: (waitedMs: number) => queueWait.observe(waitedMs / 1000),
    hashEnded: (ms: number) => hash.observe(ms / 1000),
    answered: (method: string, route: string, status: number, ms: number) =>
      requests.observe({ method, route, status }, ms / 1000),
    operationEnded: (operation: OperationName, isDone: boolean, ms: number) =>
      operations.observe({ operation, result: isDone ? 'done' : 'error' }, ms / 1000),

    read(sources: Sources): void {
      const { queueDepth, speed, certificateExpiry, signingSince, connections } = sources
      const { wasReady, clockOffsetMs, purgedAt, lostLogLines } = sources
      new Gauge({
        name: 'login_service_ready',
        help: '1 if the last readiness check succeeded, else 0; each scrape starts a check',
        registers,
        collect() {
          this.set(Number(wasReady()))
        },
      })
      new Gauge({
        name: 'clock_offset_seconds',
        help: 'How far the clock of the database is ahead of the clock of this machine',
        registers,
        collect() {
          this.set(clockOffsetMs() / 1000)
        },
      })
      new Gauge({
        name: 'purge_last_success_timestamp_seconds',
        help: 'When this instance last found that no expired row is left, or another instance purging; at first its start',
        registers,
        collect() {
          this.set(purgedAt().getTime() / 1000)
        },
      })
      new Counter({
        name: 'log_lines_lost_total',
        help: 'Lines of the log that could not be written',
        registers,
        collect() {
          this.reset()
          this.inc(lostLogLines())
        },
      })
      new Gauge({
        name: 'password_queue_depth',
        help: 'Attempts that wait for their hash to begin',
        registers,
        collect() {
          this.set(queueDepth())
        },
      })
      new Gauge({
        name: 'password_lanes',
        help: 'Hashes that a thread computes at a time',
        registers,
        collect() {
          this.set(speed().kernels.length)
        },
      })
      new Gauge({
        name: 'password_round_seconds',
        help: 'Fastest bcrypt round of a thread so far, by kernel and by the number of hashes that it computes at a time',
        labelNames: ['kernel', 'hashes'],
        registers,
        collect() {
          for (const [kernel, roundMs] of Object.entries(speed().fastestMs)) {
            for (const [i, ms] of roundMs.entries()) this.set({ kernel, hashes: i + 1 }, ms / 1000)
          }
        },
      })
      new Gauge({
        name: 'tls_certificate_expiry_timestamp_seconds',
        help: 'When the served certificate expires; absent without one',
        registers,
        collect() {
          const expiry = certificateExpiry()
          if (expiry) this.set(expiry.getTime() / 1000)
          else this.reset()
        },
      })
      new Gauge({
        name: 'signing_key_since_timestamp_seconds',
        help: 'Since when the current key signs access tokens',
        registers,
        collect() {
          this.set(signingSince().getTime() / 1000)
        },
      })
      if (!connections) return
      new Gauge({
        name: 'database_connections',
        help: 'Connections to PostgreSQL by state, and operations that wait for one',
        labelNames: ['state'],
        registers,
        async collect() {
          const states = await connections()
          for (const [state, count] of Object.entries(states ?? {})) this.set({ state }, count)
        },
      })
    },
  }
}
