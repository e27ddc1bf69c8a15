// The connections of a process to PostgreSQL: a pool of `pg` for each host of DATABASE_URL. A connection counts until
// the server has closed it, for at most 10 s: an operation whose time is up leaves its statement behind, and the server
// may work on it for longer.
import { Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { within } from '../../time-limit.ts'

/** How long a request waits for a connection. */
export const CONNECT_TIMEOUT_MS = 1_000
/** How long the first connection of a process and a command wait, and how long a silent connection counts. */
const LONG_TIMEOUT_MS = 10_000
/** How long a host is tried alone. A host that is down may not answer at all. */
const HEAD_START_MS = 200
const RETRY_PAUSE_MS = 100
const CLOSE_TIMEOUT_MS = 1_000
/** While a statement runs, its host is probed after this time, then every second: a dead one is noticed after 15 s. */
const KEEPALIVE_DELAY_MS = 5_000

// https://www.postgresql.org/docs/current/errcodes-appendix.html
const TOO_MANY_CONNECTIONS = '53300'
const CANNOT_CONNECT_NOW = '57P03'

/** The server cannot be used now, but may be soon: it is full, starts, or is about to be promoted. */
class NotYetUsable extends Error {}

export type Lent = { client: pg.PoolClient; host: pg.Pool }

type PoolOptions = {
  configs: pg.ClientConfig[]
  /** Most connections to each host. */
  size: number
  /** Accept only a server that accepts writes and was not replaced by a newer primary. */
  mustBeWritable: boolean
  /** The newest timeline that this process has used. */
  newestTimeline: { value: number }
  /** Called when an idle connection breaks; it has left the pool. */
  onConnectionLost: (error: Error) => void
  /** Longest that one operation may take. */
  operationTimeoutMs: number
}

export class Pool {
  readonly #options: PoolOptions
  /** The one that was usable last comes first. */
  #hosts: pg.Pool[]
  readonly #sockets = new Set<Socket>()
  readonly #timelines = new WeakMap<pg.ClientBase, number>()
  #hasConnected = false

  constructor(options: PoolOptions) {
    this.#options = options
    this.#hosts = options.configs.map(config => {
      const host = new pg.Pool({
        ...config,
        max: options.size,
        connectionTimeoutMillis: LONG_TIMEOUT_MS,
        keepAlive: true,
        keepAliveInitialDelayMillis: KEEPALIVE_DELAY_MS,
        stream: () => this.#openSocket(),
        onConnect: client => this.#check(client),
      })
      return host.on('error', options.onConnectionLost)
    })
  }

  /** Rejects if no connection is free in time. */
  async take(): Promise<Lent> {
    const isRequest = this.#hasConnected && this.#options.operationTimeoutMs < LONG_TIMEOUT_MS
    const deadline = performance.now() + (isRequest ? CONNECT_TIMEOUT_MS : LONG_TIMEOUT_MS)
    for (;;) {
      try {
        const lent = await this.#takeFromAny(deadline)
        this.#hasConnected = true
        this.#hosts = [lent.host, ...this.#hosts.filter(host => host !== lent.host)]
        return lent
      } catch (error) {
        if (!isTransient(error) || performance.now() + RETRY_PAUSE_MS > deadline) {
          throw withAdvice(error)
        }
        await sleep(RETRY_PAUSE_MS)
      }
    }
  }

  count() {
    const sum = (number: (host: pg.Pool) => number) =>
      this.#hosts.reduce((total, host) => total + number(host), 0)
    return {
      used: sum(host => host.totalCount - host.idleCount),
      idle: sum(host => host.idleCount),
      waiting: sum(host => host.waitingCount),
    }
  }

  /** Takes back a connection that broke or must not be used again, when its last statement is answered. */
  async discard({ client }: Lent, answer?: Promise<unknown>): Promise<void> {
    const closing = Promise.allSettled([answer]).then(() => client.end())
    await within(closing, LONG_TIMEOUT_MS, 'the connection is still open').catch(() => {})
    client.release(true)
  }

  /** The same because the operation's time is up. The host may hang, so the next operation tries another one first. */
  abandon(lent: Lent, answer: Promise<unknown>): void {
    this.#hosts = [...this.#hosts.filter(host => host !== lent.host), lent.host]
    void this.discard(lent, answer)
  }

  async end(): Promise<void> {
    const ending = Promise.all(this.#hosts.map(host => host.ended || host.end()))
    await within(ending, CLOSE_TIMEOUT_MS, 'connections are still open').catch(() => {})
    for (const socket of this.#sockets) socket.destroy()
  }

  #openSocket(): Socket {
    const socket = new Socket()
    this.#sockets.add(socket)
    return socket.once('close', () => this.#sockets.delete(socket))
  }

  /** Tries the hosts, each with a head start before the next one. A connection that comes late stays in its pool. */
  async #takeFromAny(deadline: number): Promise<Lent> {
    const [only] = this.#hosts
    if (only && only.idleCount > only.waitingCount) return this.#takeFrom(only)
    const attempts: Promise<Lent>[] = []
    for (const host of this.#hosts) {
      const attempt = this.#takeFrom(host)
      attempts.push(attempt)
      if (attempts.length === this.#hosts.length) break
      const isTaken = attempt.then(
        () => true,
        () => false,
      )
      if (await Promise.race([isTaken, sleep(HEAD_START_MS, false, { ref: false })])) break
    }
    let taken: Lent | null = null
    try {
      const leftMs = deadline - performance.now()
      taken = await within(Promise.any(attempts), leftMs, 'no connection to the database is free')
      return taken
    } catch (error) {
      throw error instanceof AggregateError ? joined(error.errors) : error
    } finally {
      for (const attempt of attempts) {
        attempt.then(({ client }) => client === taken?.client || client.release()).catch(() => {})
      }
    }
  }

  async #takeFrom(host: pg.Pool): Promise<Lent> {
    for (;;) {
      const client = await host.connect()
      if (!this.#isReplaced(client)) return { client, host }
      await this.discard({ client, host })
    }
  }

  /** A promoted standby starts a new timeline. A server on an older one was replaced. */
  #isReplaced(client: pg.ClientBase): boolean {
    return (this.#timelines.get(client) ?? 0) < this.#options.newestTimeline.value
  }

  async #check(client: pg.ClientBase): Promise<void> {
    // An error of a connection that is in use fails the statement that waits for an answer.
    client.on('error', () => {})
    const { mustBeWritable, newestTimeline } = this.#options
    if (!mustBeWritable) return
    const { rows } = await client.query(READ_STATE)
    const { is_read_only: isReadOnly, timeline } = rows[0]
    if (isReadOnly) throw new NotYetUsable('the server does not accept writes')
    this.#timelines.set(client, timeline)
    if (this.#isReplaced(client)) {
      throw new NotYetUsable(
        `the server is on timeline ${timeline}, but this process has used timeline ${newestTimeline.value}: a former primary`,
      )
    }
    newestTimeline.value = timeline
  }
}

/** Every role may call these functions. The name of a WAL file begins with the timeline. */
const READ_STATE = `
  select current_setting('transaction_read_only') = 'on' as is_read_only,
    case when pg_is_in_recovery() then 0
      else ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::int end as timeline`

/** PgBouncer refuses the settings that the service sends, unless it is told that a pooler is there. */
function withAdvice(error: unknown): unknown {
  if (error instanceof Error && error.message.startsWith('unsupported startup parameter')) {
    error.message +=
      '. If this is PgBouncer in transaction mode, set DATABASE_POOLER=transaction; in session mode, add options to its ignore_startup_parameters.'
  }
  return error
}

function isTransient(error: unknown): boolean {
  if (error instanceof NotYetUsable) return true
  return (
    error instanceof pg.DatabaseError &&
    (error.code === TOO_MANY_CONNECTIONS || error.code === CANNOT_CONNECT_NOW)
  )
}

/** One error for the errors of all hosts. */
function joined(errors: (Error & { code?: string })[]): Error {
  const [first] = errors
  if (first && errors.length === 1) return first
  const message = errors.map(error => error.message || error.code).join('; ')
  return errors.some(isTransient) ? new NotYetUsable(message) : new Error(message)
}
