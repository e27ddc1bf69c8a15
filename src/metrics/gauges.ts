// Values that are read when they are scraped.
import { Counter, Gauge, type Registry } from '@prometheus-io/client'

export type Sources = {
  queueDepth: () => number
  /** Of each certificate that is served. */
  certificateExpiries: () => Date[]
  signingSince: () => Date
  keysHash: () => number
  wasReady: () => boolean
  clockOffsetMs: () => number
  purgedAt: () => Date
  lostLogLines: () => number
  usersWithFactor: () => number
  /** Null without an admin API. */
  adminTokens: (() => { name: string; expiresAt: Date }[]) | null
  /** Null for SQLite. */
  connections: (() => Promise<Record<string, number> | null>) | null
}

export function addGauges(registers: Registry[], sources: Sources): void {
  const { certificateExpiries, lostLogLines, adminTokens, connections } = sources

  function addGauge(name: string, help: string, read: () => number): void {
    new Gauge({
      ...{ name, help, registers },
      collect() {
        this.set(read())
      },
    })
  }

  addGauge(
    'login_service_ready',
    '1 if the last readiness check succeeded, else 0; each scrape starts a check',
    () => Number(sources.wasReady()),
  )
  addGauge(
    'clock_offset_seconds',
    'How far the clock of the database is ahead of the clock of this machine',
    () => sources.clockOffsetMs() / 1000,
  )
  addGauge(
    'purge_last_success_timestamp_seconds',
    'When this instance last found that no expired row is left, or another instance purging; at first its start',
    () => sources.purgedAt().getTime() / 1000,
  )
  addGauge('password_queue_depth', 'Attempts that wait for their hash to begin', sources.queueDepth)
  addGauge(
    'signing_key_since_timestamp_seconds',
    'Since when the current key signs access tokens',
    () => sources.signingSince().getTime() / 1000,
  )
  addGauge(
    'signing_keys_hash',
    'A number made of the ids of all signing keys: the same at all instances that have the same keys',
    sources.keysHash,
  )
  if (certificateExpiries().length > 0) {
    addGauge(
      'tls_certificate_expiry_timestamp_seconds',
      'When the first of the served certificates expires; absent without one',
      () => Math.min(...certificateExpiries().map(Number)) / 1000,
    )
  }
  addGauge(
    'users_with_second_factor',
    'Users that have a second factor, counted every 10 minutes beside a scrape; NaN until the first count',
    sources.usersWithFactor,
  )
  new Counter({
    name: 'log_lines_lost_total',
    help: 'Lines of the log that could not be written',
    registers,
    collect() {
      this.reset()
      this.inc(lostLogLines())
    },
  })
  if (adminTokens) {
    new Gauge({
      name: 'admin_token_expiry_timestamp_seconds',
      help: 'When each token of the admin API ends, as the last scrape has found; each one starts a read',
      labelNames: ['token'],
      registers,
      collect() {
        this.reset()
        for (const { name: token, expiresAt } of adminTokens()) {
          this.set({ token }, expiresAt.getTime() / 1000)
        }
      },
    })
  }
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
}
